"""Further instructions for the ten tasks of MT10: some for training, some for evaluation only.

Held-out instructions are new sentences from words of the task's other sentences.
"""

from __future__ import annotations

TRAINED: dict[str, tuple[str, ...]] = {
    "reach": (
        "Move your hand to the goal.",
        "Go to the target with the empty gripper.",
        "Reach for the marked point.",
        "Bring the gripper to the goal position and stay there.",
        "Touch the target in the air with your fingertips.",
        "Reach out to the spot and hold still.",
    ),
    "push": (
        "Shove the blue puck onto the goal.",
        "Slide the puck over the table without lifting it.",
        "Push the disc across the table to the mark.",
        "Move the blue disc along the table to the target.",
        "Shift the puck on the table to where it belongs.",
        "Push it along: the puck should lie on the mark.",
    ),
    "pick-place": (
        "Lift the blue puck and place it at the goal.",
        "Grasp the puck, raise it and hold it in the air.",
        "Take the puck up to the target.",
        "Pick the disc up and carry it to the goal point.",
        "Grip the blue disc, lift it and bring it to the mark.",
        "Raise the puck from the table to the marked spot.",
    ),
    "door-open": (
        "Pull on the door's handle and open it wide.",
        "Swing the door wide open.",
        "Get the door open.",
        "Turn the door on its hinges until it stands open.",
        "Take the door by its handle and pull.",
        "Pull the door towards you.",
    ),
    "drawer-open": (
        "Pull the drawer open.",
        "Slide the blue drawer out of the chest.",
        "Draw the drawer out towards you.",
        "Get the drawer open by its steel bar.",
        "Take the drawer's handle and pull it out.",
        "Open up the blue drawer of the chest.",
    ),
    "drawer-close": (
        "Shut the drawer.",
        "Push the drawer in.",
        "Slide the blue drawer in and close it.",
        "Press the drawer back into the chest.",
        "Get the open drawer shut.",
        "Close the blue drawer of the chest.",
    ),
    "button-press-topdown": (
        "Press down on the red button.",
        "Push the button from the top.",
        "Hit the button from above.",
        "Press the red button on the yellow box down.",
        "Come from above and push the button in.",
        "Lower your fingers onto the button and press it.",
    ),
    "peg-insert-side": (
        "Put the peg into the hole of the box.",
        "Plug the green peg into the box from the side.",
        "Take the peg and insert it.",
        "Stick the red end of the peg into the side of the box.",
        "Grasp the green peg and insert its end into the hole.",
        "Fit the peg into the box sideways.",
    ),
    "window-open": (
        "Slide the window open.",
        "Move the sash to the right by its handle.",
        "Get the window open.",
        "Push the window open with its red handle.",
        "Open the sash of the window.",
        "Slide the window's handle to the right.",
    ),
    "window-close": (
        "Slide the window shut.",
        "Move the sash to the left by its handle.",
        "Shut the window.",
        "Push the window closed with its red handle.",
        "Close the sash of the window.",
        "Slide the window's handle to the left.",
    ),
}
HELD_OUT: dict[str, tuple[str, ...]] = {
    "reach": (
        "Reach the marked spot with your hand.",
        "Bring the empty gripper to the target position.",
        "Move your fingertips to the goal in the air.",
    ),
    "push": (
        "Shove the disc along the table to the target.",
        "Slide the blue puck onto the mark.",
        "Push the puck across the table until it lies on the goal.",
    ),
    "pick-place": (
        "Grip the puck and carry it up to the goal.",
        "Pick up the blue disc and hold it at the mark in the air.",
        "Lift the puck off the table and place it at the target point.",
    ),
    "door-open": (
        "Pull the door wide open.",
        "Swing the door open by its handle.",
        "Take the handle and open the door.",
    ),
    "drawer-open": (
        "Pull out the drawer of the chest.",
        "Draw the blue drawer open by its handle.",
        "Slide the drawer out and open it.",
    ),
    "drawer-close": (
        "Push the drawer back in until it is shut.",
        "Shut the blue drawer of the chest.",
        "Slide the drawer closed.",
    ),
    "button-press-topdown": (
        "Push down the red button from above.",
        "Press the button on the box with your fingers.",
        "Lower your closed fingers and push the button in.",
    ),
    "peg-insert-side": (
        "Insert the green peg from the side.",
        "Pick up the peg and put its red end into the box.",
        "Push the peg into the hole of the box.",
    ),
    "window-open": (
        "Push the sash to the right until it is open.",
        "Slide open the window by its red handle.",
        "Move the window's handle to the right.",
    ),
    "window-close": (
        "Push the sash to the left until it is shut.",
        "Slide the window closed by its red handle.",
        "Move the window's handle to the left.",
    ),
}
