package money

import "math"

// Usage is what one call used, in tokens. Each token is in one field only: input that was read from
// a cache or written to one is not in Input, also where the provider includes it in its count of
// the prompt. The package's introduction says how to fill the fields by provider. A count below
// zero counts as zero. The zero value is a call that used nothing.
type Usage struct {
	Input          int         // input tokens that are in none of the fields of caches
	CachedInput    int         // input tokens read from a cache
	CacheWrite     int         // input tokens written to a cache, for five minutes where there is a choice
	CacheWriteHour int         // input tokens written to a cache for an hour
	Output         int         // output tokens, those of reasoning included
	ServiceTier    ServiceTier // that the answer reports; zero if it reports none
}

// inputs returns the size of the input, by which rates tell calls apart.
func (u *Usage) inputs() (n int) {
	for _, part := range [...]int{u.Input, u.CachedInput, u.CacheWrite, u.CacheWriteHour} {
		if n += max(part, 0); n < 0 {
			return math.MaxInt
		}
	}
	return n
}
