package account

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Usage is what an account shows of itself: the charges of the last minute and the counts of the
// day. It has the fields of the root's UsageStats in the same order and of the same layout, so
// that a pointer to one is a pointer to the other.
type Usage struct {
	Requests []time.Time   // of the minute, oldest first
	Tokens   []state.Token // of the same requests
	DayStart time.Time     // when the present day began
	DayCount int           // requests since then

	DayTokens int // tokens since then

	Owner *Account // whose usage it is; nil for an entry that a program made
}
