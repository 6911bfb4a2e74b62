package account

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Meter counts charges: those of an account, or those of one class in it. The day is that of the
// account.
type Meter struct {
	Window
	InFlight int // calls that are charged and not settled

	account *Account // nil in one of a class
	usage   *Usage
	day     *Day
	days    int32  // the serial of the day that the counts belong to
	epoch   uint32 // how often all charges were forgotten
	round   uint16 // how often the file of this process was saved: see Charge.round
}

func newMeter(day *Day) Meter {
	return Meter{Window: Window{oldest: Never}, usage: new(Usage), day: day}
}

// DayUsed returns the requests and the tokens of the day at a time, and that day.
func (m *Meter) DayUsed(wall int64) (requests, tokens int, day Span) {
	if day = m.day.Span; !day.Holds(wall) {
		var over bool
		if day, over = m.day.at(wall); over {
			return 0, 0, day
		}
	}
	if m.days != m.day.serial {
		return 0, 0, day
	}
	return max(m.usage.DayCount, 0), max(m.usage.DayTokens, 0), day
}

// charge adds one request and its tokens.
func (m *Meter) charge(now Now, c state.Count) {
	when := now.Time()
	if m.requests.Push(now.Instant, when); m.pace != nil {
		m.pace.PushRequest(now.Instant)
	}
	m.pushTokens(now.Instant, when, c)
	m.show()
	m.addDay(1, c.Total())
}

// show shows the entries of the window.
func (m *Meter) show() {
	m.usage.Requests, m.usage.Tokens = m.requests.Values(), m.tokens.Values()
}

// refresh drops what is before the cut.
func (m *Meter) refresh(cut int64) {
	if cut > m.oldest {
		m.prune(cut)
		m.show()
	}
}

// addDay adds to the counts of the present day.
func (m *Meter) addDay(requests, used int) {
	m.followDay()
	m.setDay(state.AddSaturated(max(m.usage.DayCount, 0), requests), state.AddSaturated(max(m.usage.DayTokens, 0), used))
}

// followDay has the counts be those of the present day.
func (m *Meter) followDay() {
	if m.days != m.day.serial {
		m.days = m.day.serial
		m.setDay(0, 0)
	}
}

func (m *Meter) setDay(requests, tokens int) {
	m.usage.DayCount, m.usage.DayTokens = requests, tokens
	if m.account != nil {
		m.account.dayWas = requests
	}
}

// restOfDay returns the day's tokens without one charge. now is what that charge holds in the
// minute at present. If the count of the day is saturated, the result is at least the other
// tokens of the minute.
func (m *Meter) restOfDay(charged, now state.Count) int {
	used := max(m.usage.DayTokens, 0)
	rest := max(used-charged.Total(), 0)
	if used == math.MaxInt {
		rest = max(rest, m.sums.Total().Total()-now.Total())
	}
	return rest
}

// forget forgets all charges. Those of open calls are found no more.
func (m *Meter) forget() {
	m.epoch++
	m.Window = Window{oldest: Never}
	m.show()
	m.setDay(0, 0)
}

// Used returns what counts of a dimension at a moment, for a caller with a span.
func (m *Meter) Used(of state.Dimension, span int64, now Now) int {
	switch of {
	case state.InFlight:
		return m.InFlight
	case state.RPM:
		return m.Requests(now.Instant - span)
	case state.RPD:
		requests, _, _ := m.DayUsed(now.Wall)
		return requests
	case state.TPD:
		_, used, _ := m.DayUsed(now.Wall)
		return used
	default:
		return m.Tokens(now.Instant - span).Of(state.Limits[of].Tokens)
	}
}
