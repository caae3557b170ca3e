"""The viewer: environments in the browser, with what a person may set while a policy acts in them.

`Scene` draws, `Panel` is what may be pressed and read, `Playback` is one task with the policy that acts in it, and
`Player` runs them. Nothing here knows where policies come from: see `choices.Catalogue`. Requests of visitors wait in a
queue that is read between two control steps. A task, policy or checkpoint that cannot be loaded is reported, and the
last one plays on.
"""
