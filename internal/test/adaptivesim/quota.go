package adaptivesim

import "time"

// Window is how a provider counts calls.
type Window int

// The kinds of windows.
const (
	Bucket   Window = iota // a token bucket
	Sliding                // the calls of the last 60 seconds
	Calendar               // the calls of the present minute
)

func (w Window) String() string { return [...]string{"bucket", "sliding", "calendar"}[w] }

// quota counts the calls of a provider.
type quota interface {
	// room returns how long it takes until there is room for a call, at a capacity in calls a
	// second.
	room(now time.Duration, capacity float64) (wait time.Duration)
	// take counts a call that there is room for.
	take(now time.Duration)
}

func newQuota(p *Provider) quota {
	switch p.Window {
	case Sliding:
		return &slidingMinute{}
	case Calendar:
		return &calendarMinute{phase: p.Phase % time.Minute}
	}
	b := &bucket{seconds: p.Depth.Seconds(), least: float64(p.Least)}
	b.tokens = b.depth(p.Capacity(0))
	return b
}

type bucket struct {
	seconds, least float64 // what it holds
	tokens         float64
	at             time.Duration // of tokens
}

func (b *bucket) depth(capacity float64) float64 { return max(capacity*b.seconds, b.least) }

func (b *bucket) room(now time.Duration, capacity float64) time.Duration {
	b.tokens = min(b.tokens+capacity*(now-b.at).Seconds(), b.depth(capacity))
	if b.at = now; b.tokens < 1 {
		return max(time.Duration((1-b.tokens)/capacity*1e9), 1)
	}
	return 0
}

func (b *bucket) take(time.Duration) { b.tokens-- }

type slidingMinute struct {
	calls []time.Duration // of the last minute
}

func (m *slidingMinute) room(now time.Duration, capacity float64) time.Duration {
	for len(m.calls) > 0 && now-m.calls[0] >= time.Minute {
		m.calls = m.calls[1:]
	}
	if over := len(m.calls) - int(60*capacity+0.5); over >= 0 && over < len(m.calls) {
		return m.calls[over] + time.Minute - now
	}
	return 0
}

func (m *slidingMinute) take(now time.Duration) { m.calls = append(m.calls, now) }

type calendarMinute struct {
	phase  time.Duration // of the first minute, that was over at the beginning
	minute time.Duration // the number of the present one
	calls  int
}

func (m *calendarMinute) room(now time.Duration, capacity float64) time.Duration {
	if minute := (now + m.phase) / time.Minute; minute != m.minute {
		m.minute, m.calls = minute, 0
	}
	if m.calls >= int(60*capacity+0.5) {
		return (m.minute+1)*time.Minute - now - m.phase
	}
	return 0
}

func (m *calendarMinute) take(time.Duration) { m.calls++ }
