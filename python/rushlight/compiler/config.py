"""Settings of the compiler, kept for programs that set them."""
job_id = None
cache_key_tag = ""
dynamic_sources = unbacked_sources = ""
force_disable_caches = False
