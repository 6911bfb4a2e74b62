package account

import (
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Month is the tokens of the present calendar month in the zone of a quota that limits them. A call
// counts to the month in which it was admitted.
type Month struct {
	used  state.Period[int64]
	limit int64
	zone  *Zone
}

// Used returns the tokens that count at a time, and when their month ends.
func (m *Month) Used(wall int64) (used, end int64) {
	if m == nil {
		return 0, 0
	}
	return m.used.At(wall), m.used.End
}

// Deny denies what does not fit into the month.
func (m *Month) Deny(ask Ask, now Now) (d Denial) {
	is := m.used
	setBack(&is, m.zone.Month, now.Wall)
	denyPeriod(&d, &is, m.limit, int64(ask.Total()), now.Wall, Refusal{
		Rank: ByMonth, Code: "tokens_per_month_exceeded", Reason: "tokens per month are used up",
		TooMuch: "the request alone exceeds the tokens per month",
	})
	return d
}

// Charge adds the tokens of a call, unless it was admitted in a month that is over.
func (m *Month) Charge(b Bill, now Now) (eased bool) {
	if setBack(&m.used, m.zone.Month, b.Wall); now.Wall >= min(m.zone.Month.Begin, b.Wall) {
		charge(&m.used, m.zone.Month, int64(b.Tokens.Total()), b.Wall)
	}
	return false
}

// End replaces the tokens of a call by those that it has used.
func (m *Month) End(b Bill, _ How, now Now) {
	more := int64(b.Used.Total()) - int64(b.Tokens.Total())
	if setBack(&m.used, m.zone.Month, now.Wall); more > 0 || !b.Forgot {
		settle(&m.used, m.zone.Month, more, b.Wall, now.Wall)
	}
}

// MayPass reports whether the month may let an ask pass in time.
func (m *Month) MayPass(h Hope, now Now) bool {
	return mayFit(&m.used, m.limit, int64(h.Total()), int64(h.Open.Total()), now.Wall, h.Left)
}

// Lasts returns how long what was used counts.
func (m *Month) Lasts(now Now) int64 {
	if m.used.At(now.Wall) == 0 {
		return 0
	}
	return m.used.End - now.Wall
}

// Forget forgets what was used.
func (m *Month) Forget() { m.used.Spent = 0 }

func bindMonth(a *Account, zone *Zone, now Now) {
	m := askFor(a, &a.Month, a.Has(Monthly))
	if m == nil {
		return
	}
	if m.limit == 0 && a.InFlight > 0 { // it is new, and these calls give nothing back to it
		m.used.End = now.Wall
	}
	m.limit, m.zone = a.Quota.MaxTokensPerMonth, zone
	rezone(&m.used, zone.Month, now.Wall, state.LongestSpendMonth)
}

func readMonth(a *Account, r *wire.Reader, as *As, has bool) {
	if m := askFor(a, &a.Month, a.Has(Monthly)); has != (m != nil) {
		r.Fail("month that the quota does not ask for, or none")
	} else if has {
		m.limit, m.zone, m.used = a.Quota.MaxTokensPerMonth, as.SpendZone, readPeriod[int64](r)
	}
}

// AppendImage appends the whole state of the month.
func (m *Month) AppendImage(to []byte) []byte { return appendPeriod(to, &m.used) }
