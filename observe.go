package ratelimit

import "time"

// ProviderLimit is what a provider says of one limit of a model. The zero value says
// nothing.
type ProviderLimit struct {
	// Limit is the most that there may be; zero or less when that was not said.
	Limit int
	// Remaining is what is left, if HasRemaining; a negative number says nothing.
	Remaining    int
	HasRemaining bool
	// Reset is how long it takes until all of it is there again; zero when not said.
	Reset time.Duration
	// Rounding is the unit to which Remaining was rounded, as 1000; zero for none.
	Rounding int
}

// ProviderLimits is what a provider says of the limits of a model with an answer, see
// [RateLimiter.Observe]. The zero value says nothing.
type ProviderLimits struct {
	RPM, TPM, ITPM, OTPM ProviderLimit // of the minute
	RPD, TPD             ProviderLimit // of the day

	// SentAt is when the call was sent that was answered; zero is now.
	SentAt time.Time
	// Uncounted is what is charged here for calls that the provider may not have counted
	// yet when it answered, because they were on their way.
	UncountedRequests int
	Uncounted         Usage
}
