package adaptivesim

import "time"

// Sum is what happened in a time.
type Sum struct {
	Sent, Answered, Refused, Overloaded, Down int
	Capacity                                  float64 // how many calls the provider allowed
}

// Total adds up the seconds of some clients, from one instant to another.
func Total(p Provider, from, to time.Duration, clients ...[]Second) (s Sum) {
	for t := from; t < to; t += time.Second {
		s.Capacity += p.Capacity(t)
		for _, seconds := range clients {
			second := seconds[t/time.Second]
			s.Sent += second.Sent
			s.Answered += second.Answered
			s.Refused += second.Refused
			s.Overloaded += second.Overloaded
			s.Down += second.Down
		}
	}
	return s
}

// RefusedShare is the share of the calls that were refused, for any reason.
func (s Sum) RefusedShare() float64 {
	return float64(s.Refused+s.Overloaded+s.Down) / float64(max(s.Sent, 1))
}

// Goodput is the share of what the provider allowed that was used.
func (s Sum) Goodput() float64 { return float64(s.Answered) / s.Capacity }

// Settles returns how long after an instant the level comes within a share of the wanted one,
// and whether it does so before the end.
func Settles(seconds []Second, from, to time.Duration, wanted, share float64) (time.Duration, bool) {
	for t := from; t < to; t += time.Second {
		if level := seconds[t/time.Second].Level; level >= wanted*(1-share) && level <= wanted*(1+share) {
			return t - from, true
		}
	}
	return 0, false
}

// Leaves returns the share of the seconds in which the level is not within a share of the
// wanted one.
func Leaves(seconds []Second, from, to time.Duration, wanted, share float64) float64 {
	out, all := 0, 0
	for t := from; t < to; t += time.Second {
		if level := seconds[t/time.Second].Level; level < wanted*(1-share) || level > wanted*(1+share) {
			out++
		}
		all++
	}
	return float64(out) / float64(max(all, 1))
}

// Passes returns how long after an instant a client first sends a share of what it wants, in
// ten seconds.
func Passes(seconds []Second, from, to time.Duration, wanted float64) (time.Duration, bool) {
	for t := from; t+10*time.Second <= to; t += time.Second {
		sent := 0
		for _, second := range seconds[t/time.Second : t/time.Second+10] {
			sent += second.Sent
		}
		if float64(sent) >= 10*wanted {
			return t - from, true
		}
	}
	return 0, false
}
