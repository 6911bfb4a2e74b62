package money

// Usage is what one call used, in tokens. Each token is in one field only: input that was read from
// a cache or written to one is not in Input, also where the provider includes it in its count of
// the prompt. The package's introduction says how to fill the fields by provider. A count below
// zero counts as zero. The zero value is a call that used nothing.
type Usage struct {
	Input       int // input tokens that are neither in CachedInput nor in CacheWrite
	CachedInput int // input tokens read from a cache
	CacheWrite  int // input tokens written to a cache
	Output      int // output tokens, those of reasoning included
}
