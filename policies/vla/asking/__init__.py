"""Asking before acting, where an instruction fits several objects."""
