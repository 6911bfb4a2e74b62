package account

import (
	"cmp"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Ask is what requests that are to pass together ask of one account.
type Ask struct {
	state.Cost        // of all of them
	Class      string // of the call
	Span       int64  // how long a charge of the minute counts for the caller: a minute and its margin
	Patience   int64  // how long reserves of other classes still keep the call out
}

// Rank is the place of a limit in the order in which limits deny: the first names the denial.
type Rank int8

// The ranks.
const (
	ByNothing Rank = iota
	ByCooldown
	ByPlace
	BySlots
	ByRPD
	ByTPD
	BySpend
	ByMonth
	ByRPM
	ByRate
	ByITPM
	ByOTPM
	ByTPM
)

// Refusal is the denial of one limit.
type Refusal struct {
	Rank    Rank
	Code    string // of the decision
	Reason  string
	Wait    int64  // how long it denies, in nanoseconds
	Event   bool   // no time says until when it denies
	TooMuch string // the reason why the request alone exceeds the limit; empty where it does not
}

// Denial collects the refusals of the limits of one account, in any order. The zero value is none.
type Denial struct {
	first   Refusal // by rank
	longest Refusal // by its wait
	tooMuch Refusal // the first that the request alone exceeds
	budget  string  // the reason of the last limit of spend that denies
	event   bool
}

// Add adds the refusal of a limit.
func (d *Denial) Add(r *Refusal) {
	if d.first.Rank == ByNothing || r.Rank < d.first.Rank {
		d.first = *r
	}
	if r.Wait > d.longest.Wait || r.Wait == d.longest.Wait && r.Wait > 0 && r.Rank < d.longest.Rank {
		d.longest = *r
	}
	if r.TooMuch != "" && (d.tooMuch.TooMuch == "" || r.Rank < d.tooMuch.Rank) {
		d.tooMuch = *r
	}
	if r.Code == CodeSpend {
		d.budget = r.Reason
	}
	d.event = d.event || r.Event
}

// IsNone reports whether no limit denies.
func (d *Denial) IsNone() bool { return d.first.Rank == ByNothing }

// First returns the refusal that names the denial.
func (d *Denial) First() *Refusal { return &d.first }

// TooMuch returns the reason why the request can never pass; empty where it can.
func (d *Denial) TooMuch() string { return d.tooMuch.TooMuch }

// Wait returns the longest wait of a limit that ends with time.
func (d *Denial) Wait() int64 { return d.longest.Wait }

// AwaitsEvent reports whether a limit denies until something ends that no time tells.
func (d *Denial) AwaitsEvent() bool { return d.event }

// OverBudget reports whether spend is among what denies.
func (d *Denial) OverBudget() bool { return d.budget != "" }

// Longest returns the reason to be told beside the first, of the limit that a retry after the
// longest wait belongs to, or else of a used-up budget; empty for none.
func (d *Denial) Longest(waits bool) string {
	last := d.budget
	if waits {
		last = d.longest.Reason
	}
	if last == d.first.Reason {
		return ""
	}
	return last
}

// Merge adds the refusals of another limit.
func (d *Denial) Merge(other Denial) {
	for _, r := range [...]*Refusal{&other.first, &other.longest, &other.tooMuch} {
		if r.Rank != ByNothing {
			d.Add(r)
		}
	}
	d.event = d.event || other.event
	d.budget = cmp.Or(other.budget, d.budget)
}

// Extra is a limit that few accounts have. Each lives in a file of its own, and no other limit
// knows it. Its parameters are values, so that those that have no extras allocate nothing.
type Extra interface {
	// Deny returns the refusals of an ask.
	Deny(ask Ask, now Now) Denial
	// Charge follows a call that was admitted or recorded. It reports whether that eases a limit.
	Charge(b Bill, now Now) (eased bool)
	// End follows the end of a call.
	End(b Bill, how How, now Now)
	// MayPass reports whether the limit may let an ask pass that hopes for the end of open calls.
	MayPass(h Hope, now Now) bool
	// Lasts returns how long something counts for which the account has to keep its usage, and so
	// its place, if nothing is charged or given back meanwhile; 0 for nothing.
	Lasts(now Now) int64
	// Forget follows Account.Forget; open is whether calls are.
	Forget(open bool, now Now)
	// AppendImage appends the whole state of the limit: see rares.
	AppendImage(to []byte) []byte
}

// Bill is what a call charges to an account.
type Bill struct {
	At       int64        // the instant of the charge
	Wall     int64        // when its money was charged, in UnixNano
	Tokens   state.Count  // that were charged
	Used     state.Count  // of it, as it ends
	Most     money.Amount // that the call can cost, which was charged
	Cost     money.Amount // what it did cost, as it ends
	InFlight int          // calls in flight, this one included
	Forgot   bool         // the account has forgotten the charge
}

// Hope is an ask whose caller waits until a deadline, and may be given back by then what open calls
// hold.
type Hope struct {
	Ask
	Open     Open
	InFlight int
	Left     int64 // until the deadline, in nanoseconds
}

// How says how a call ended.
type How uint8

// The ways in which calls end.
const (
	Committed How = iota // with what it used
	Cancelled            // it was never sent, and all is given back
	Expired              // nobody settled it in time: the estimate stays
	Lost                 // whoever made it is gone: the same
)
