// Package lines keeps the calls that wait for accounts, and says who is next: one queue for models,
// pools, classes, flows and calls that one of several models can serve. It knows no clock: what
// happens with time happens when the engine passes the moment.
package lines

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Waiter is a call that waits, for any of its candidates.
type Waiter struct {
	ID         account.ID
	Candidates []*Candidate // in the order of preference
	Deadline   int64        // the instant from which on it is not served; account.Never for none
	Patient    int64        // the instant until which the first candidate stands alone
	MaxQueue   int          // how many may wait for one model; 0 for no bound
	HoldTTL    int64        // of the calls that it makes
	Charges    bool         // it makes calls; else it only waits for room

	Seq   int64 // the order of arrival; 0 for one that never stood in line
	Since int64 // the instant of it

	Over   bool
	Served *Candidate      // by which it was served; nil where it was refused
	Calls  []*account.Call // that it made
	Why    Refusal         // why it was refused
	Denied verdict.Verdict // why it stands in line, as decided when it came,
	By     *Candidate      // and of which candidate that is

	Local any // what the process notes beside it

	entered int // how many candidates stand in line, or were refused
	tries   int // how often it was tried
	triedAt int // since this Lines.progress
	at      int // in the queue of those that are patient, counted from 1; 0 for not
}

// Candidate is what a waiter asks for: requests that pass together.
type Candidate struct {
	Waiter *Waiter
	Items  []verdict.Item // see Host.Decide
	Asks   any            // what the engine knows the requests by
	Class  string
	Flow   string

	Verdict verdict.Verdict // the last
	Kind    Kind            // why it was refused; Stands where it was not

	places []place // parallel to Items; nil where it does not stand in line
	yields bool    // to those of other classes: it waits for long, or for a reserve
	torn   bool    // it is among Lines.torn
	keptAt int64   // the instant since which reserves keep it out; 0 for not
}

// Kind says why a candidate was refused.
type Kind uint8

// The kinds, the most hopeless first.
const (
	Stands    Kind = iota // it was not
	Never                 // it can never pass
	QueueFull             // too many wait
	Late                  // it cannot pass by its deadline
	Closed                // nobody is served any more
)

// Refusal is the end of a wait in vain.
type Refusal struct {
	Kind Kind
	Of   *Candidate // that is the least hopeless, and opens first
}

// place is the place of a candidate in the line of one account.
type place struct {
	line  *line
	entry *fairEntry[*Candidate]
	part  int64 // of what is scarce there, for a candidate that was served
}

// Patience returns how much longer reserves of other classes may keep the candidate out: a minute
// from when one first did. Without this bound a class could wait for as long as others ask.
func (c *Candidate) Patience(span int64, now account.Now) int64 {
	if c.keptAt == 0 {
		return span + 1
	}
	return c.keptAt + span + 1 - now.Instant
}

// stands reports whether the candidate stands in line.
func (c *Candidate) stands() bool { return c.places != nil }

// InLine reports whether the candidate stands in line.
func (c *Candidate) InLine() bool { return c.stands() }

// models returns the places in the lines of models, which come before those in the lines of pools.
func (c *Candidate) models() []place {
	n := len(c.places)
	for n > 0 && c.places[n-1].line.isPool {
		n--
	}
	return c.places[:n]
}

// pools returns the places in the lines of pools.
func (c *Candidate) pools() []place { return c.places[len(c.models()):] }

// modelsPass reports whether all models let the candidate pass, whatever its pools do, as it was
// decided last.
func (c *Candidate) modelsPass() bool {
	for i := range c.models() {
		if !c.Items[i].Passes() {
			return false
		}
	}
	return true
}

// isRefused reports whether no candidate is left.
func (w *Waiter) isRefused() bool {
	for _, c := range w.Candidates {
		if c.Kind == Stands {
			return false
		}
	}
	return true
}

// leastHopeless returns the refusal of a waiter all of whose candidates were refused, as far as
// they have entered: of the least hopeless kind, the candidate that opens first.
func (w *Waiter) leastHopeless() (r Refusal) {
	for _, c := range w.Candidates {
		if c.Kind == Stands {
			continue
		}
		if r.Of == nil || c.Kind > r.Kind || c.Kind == r.Kind && c.Verdict.OpensBefore(&r.Of.Verdict) {
			r = Refusal{c.Kind, c}
		}
	}
	return r
}
