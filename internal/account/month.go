package account

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// The code and the reasons of the refusals by the tokens of the month.
const (
	CodeMonth = "tokens_per_month_exceeded"

	tokensOver    = "tokens per month are used up"
	tokensTooMany = "the request alone exceeds the tokens per month"
)

// Month is the tokens of the present calendar month in the zone of a quota that limits them. A call
// counts to the month in which it was admitted.
type Month struct {
	used  state.Period[int64]
	limit int64
	zone  *Zone
	since int64 // calls that were admitted until then, in UnixNano, have counted nothing
}

// Used returns the tokens that count at a time, and when their month ends.
func (m *Month) Used(wall int64) (used int, end int64) {
	if m == nil {
		return 0, 0
	}
	return int(min(m.used.At(wall), math.MaxInt)), m.used.End
}

// Deny denies what does not fit into the month.
func (m *Month) Deny(ask Ask, now Now) (d Denial) {
	is := m.used
	setBack(&is, m.zone.monthAt(now.Wall), now.Wall)
	denyPeriod(&d, &is, m.limit, int64(ask.Total()), now.Wall, Refusal{
		Rank: ByMonth, Code: CodeMonth, Reason: tokensOver, TooMuch: tokensTooMany,
	})
	return d
}

// Charge adds the tokens of a call, unless it was admitted in a month that is over.
func (m *Month) Charge(b Bill, now Now) (eased bool) {
	is := m.zone.monthAt(b.Wall)
	if setBack(&m.used, is, b.Wall); now.Wall >= min(is.Begin, b.Wall) {
		charge(&m.used, is, int64(b.Tokens.Total()), b.Wall)
	}
	return false
}

// End replaces the tokens of a call by those that it has used.
func (m *Month) End(b Bill, _ How, now Now) {
	is, more := m.zone.monthAt(now.Wall), int64(b.Used.Total())-int64(b.Tokens.Total())
	if setBack(&m.used, is, now.Wall); more > 0 || !b.Forgot && b.Wall > m.since {
		settle(&m.used, is, more, b.Wall, now.Wall)
	}
	if b.InFlight == 0 {
		m.since = math.MinInt64
	}
}

// MayPass reports whether the month may let an ask pass in time.
func (m *Month) MayPass(h Hope, now Now) bool {
	return mayFit(&m.used, m.limit, int64(h.Total()), int64(h.Open.Total()), now.Wall, h.Left)
}

// Lasts returns how long what was used counts.
func (m *Month) Lasts(now Now) int64 {
	if used, end := m.Used(now.Wall); used != 0 {
		return end - now.Wall
	}
	return 0
}

// Forget forgets what was used. Calls that are open give nothing back then.
func (m *Month) Forget(open bool, now Now) {
	if open && m.used.At(now.Wall) != 0 {
		m.since = now.Wall
	}
	m.used.Spent = 0
}

// Period returns the tokens as stores have them; zero for none.
func (m *Month) Period() state.Period[int64] {
	if m == nil {
		return state.Period[int64]{}
	}
	return m.used
}

// load makes the tokens of the month those of a file, and adds what was used since.
func (m *Month) load(is, since state.Period[int64], zone *Zone, wall int64) {
	if m == nil {
		return
	}
	m.used, m.zone = is, zone
	rezone(&m.used, zone.Month, wall, state.LongestSpendMonth)
	m.used.Add(since)
}

func bindMonth(a *Account, zone *Zone, now Now) {
	isNew := a.Month == nil
	if m := askFor(a, &a.Month, a.Has(Monthly)); m != nil {
		m.limit, m.zone = int64(a.Quota.MaxTokensPerMonth), zone
		rezone(&m.used, zone.Month, now.Wall, state.LongestSpendMonth)
		if isNew {
			m.since = a.openSince(now.Wall)
		}
	}
}

func readMonth(a *Account, r *wire.Reader, as *As, has bool) {
	if m := askFor(a, &a.Month, a.Has(Monthly)); has != (m != nil) {
		r.Fail("month that the quota does not ask for, or none")
	} else if has {
		m.limit, m.zone, m.used = int64(a.Quota.MaxTokensPerMonth), as.SpendZone, readPeriod[int64](r)
		m.since = r.Int()
	}
}

// AppendImage appends the whole state of the month.
func (m *Month) AppendImage(to []byte) []byte {
	return wire.AppendInt(appendPeriod(to, &m.used), m.since)
}
