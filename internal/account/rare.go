package account

import (
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// rare is how accounts come by a limit that few have. The limit itself is an Extra.
type rare struct {
	bit uint64 // in an image of an account: whether it has the state of the limit
	// bind has the limit follow the quota of an account, and be there where that asks for it. zone
	// is that of the quota's day and month, else the zone "".
	bind func(a *Account, zone *Zone, now Now)
	// kept returns the limit if an image of the account has its state; else nil.
	kept func(a *Account) Extra
	// read makes the limit that of an image, which may have no state of it.
	read func(a *Account, r *wire.Reader, as *As, has bool)
}

// rares are the limits that few accounts have, in the order of their images.
var rares = [...]rare{
	{hasSearch, bindFound, keptFound, readFound},
	{hasSpend, bindSpend, func(a *Account) Extra { return extra(a.Spend) }, readSpend},
	{hasRecent, bindRecent, func(a *Account) Extra { return extra(a.Recent) }, readRecent},
	{hasMonth, bindMonth, func(a *Account) Extra { return extra(a.Month) }, readMonth},
}

// rareLimit is a type of limits, a pointer to X.
type rareLimit[X any] interface {
	*X
	Extra
}

// extra returns a limit as an Extra; nil for none.
func extra[X any, P rareLimit[X]](x P) Extra {
	if x == nil {
		return nil
	}
	return x
}

// askFor has the limit of a kind be there if the quota asks for it, and else not, and returns it.
func askFor[X any, P rareLimit[X]](a *Account, at *P, asks bool) P {
	switch {
	case asks && *at == nil:
		*at = new(X)
		a.Extras = append(a.Extras, *at)
	case !asks && *at != nil:
		was := Extra(*at)
		a.Extras = slices.DeleteFunc(a.Extras, func(x Extra) bool { return x == was })
		*at = nil
	}
	return *at
}

// openSince returns the instant or the time until which calls may have been admitted that are open,
// and of which a limit that begins now knows nothing.
func (a *Account) openSince(now int64) int64 {
	if a.InFlight == 0 {
		return math.MinInt64
	}
	return now
}

// Bind has the limits that few accounts have follow the quota. zone is that of its day and month,
// else the zone "".
func (a *Account) Bind(zone *Zone, now Now) {
	for i := range rares {
		rares[i].bind(a, zone, now)
	}
}

// Lasts returns how long the limits that few accounts have need the usage of the account: see
// Extra. A bucket that was filled may last longer than the charges of the minute.
func (a *Account) Lasts(now Now) (longest int64) {
	if a.pace != nil {
		longest = a.pace.DrainsIn(now.Instant)
	}
	for _, x := range a.Extras {
		longest = max(longest, x.Lasts(now))
	}
	return longest
}
