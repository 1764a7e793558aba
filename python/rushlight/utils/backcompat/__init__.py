"""Switches of warnings about behaviour of old versions; there is nothing left to warn about."""


class Warning:
    enabled = False

    def set_enabled(self, value):
        self.enabled = value

    def get_enabled(self):
        return self.enabled


broadcast_warning = Warning()
keepdim_warning = Warning()
