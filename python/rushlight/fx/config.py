"""Settings of fx."""
disable_progress = True
verbose_progress = False
