"""Settings of symbolic shapes."""
translation_validation = False
skip_dtype_check_in_meta_registrations = False
