package account

import (
	"cmp"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// ID names a call or a waiter: by the process that asked, the number of its command, and the place
// in that.
type ID struct {
	Process, N int64
	Place      int32
}

// Compare orders by process, number and place.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Process, other.Process), cmp.Compare(id.N, other.N), cmp.Compare(id.Place, other.Place))
}

// Call is a call that was admitted, until it has ended: what it charged to its model and to each
// of its pools. The engine owns it and may use it again once it has ended.
type Call struct {
	ID     ID
	Asked  string       // the name by which its caller asked for the model
	Model  *Account     // nil where the model had no place and is not counted
	Class  string       // of the caller
	Tokens state.Count  // that were charged at admission
	Most   money.Amount // that it can cost, which was charged
	Cost   money.Amount // that it did cost, once it has ended
	At     Now          // when it was admitted
	Delay  int64        // how much later it counts than that, in nanoseconds

	HoldUntil int64 // the instant at which it expires; 0 for never
	HeapIndex int   // in the engine's queue of those that expire
	OpenIndex int   // among its open calls
	Serial    int64 // of its admission

	Arrived bool // the provider has counted it
	Ended   bool

	Local any // what the process notes beside it

	Charges []Charge // what it has charged: to its model first, then to its pools by name
	room    [1]Charge
}

// Reset empties the call, and keeps the room for its charges.
func (c *Call) Reset() {
	c.ID, c.Asked, c.Model = ID{}, "", nil
	if c.Class != "" || c.Local != nil { // writing a pointer costs time while the collector marks
		c.Class, c.Local = "", nil
	}
	c.Tokens, c.Most, c.Cost, c.At, c.Delay = state.Count{}, 0, 0, Now{}, 0
	c.HoldUntil, c.HeapIndex, c.OpenIndex, c.Serial, c.Arrived, c.Ended = 0, 0, 0, 0, false, true
	for i := range c.Charges {
		c.Charges[i].release()
	}
	c.Charges = c.Charges[:0]
	if c.room[0].Meter != nil { // more charges than it holds lie elsewhere
		c.room[0].release()
	}
}

// Alone returns the account of a call that is charged to its model alone, and is of no class; else
// nil.
func (c *Call) Alone() *Account {
	if len(c.Charges) != 1 || c.Class != "" {
		return nil
	}
	return c.Model
}

// IsCounted reports whether any account was charged.
func (c *Call) IsCounted() bool { return len(c.Charges) > 0 }

// Names notes the accounts that a call is charged to whose charges somebody else keeps.
func (c *Call) Names(all ...*Account) {
	clear(c.Charges)
	c.Charges = c.Charges[:0]
	for _, a := range all {
		*c.next() = Charge{Meter: &a.Meter}
	}
}

// NameAs notes the model and the accounts of another call, which keeps their charges.
func (c *Call) NameAs(other *Call) {
	c.Model = other.Model
	c.Names()
	for i := range other.Charges {
		if m := other.Charges[i].Meter; m.account != nil {
			*c.next() = Charge{Meter: m}
		}
	}
}

// LimitsSlots reports whether an account that was charged limits the calls in flight.
func (c *Call) LimitsSlots() bool {
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil && a.LimitsSlots() {
			return true
		}
	}
	return false
}

// Account returns the account of a charge; nil for one to a class in it.
func (c *Charge) Account() *Account { return c.Meter.account }

// next returns one more charge of the call, to be filled in: it has no pointers but else anything.
func (c *Call) next() *Charge {
	if c.Charges == nil {
		c.Charges = c.room[:0]
	}
	n := len(c.Charges)
	if n == cap(c.Charges) {
		c.Charges = append(c.Charges, Charge{})
	}
	c.Charges = c.Charges[:n+1]
	return &c.Charges[n]
}

// ChargeTo charges the call to an account. payer is whose spend its money counts to, usually that
// of the account; nil where none is counted. It reports whether that eases a limit.
func (c *Call) ChargeTo(a, payer *Account, now Now, span int64) (eased bool) {
	a.begin(now)
	charge := c.next()
	charge.add(&a.Meter, now, c.Tokens)
	a.Open.add(1, c.Tokens, c.Most)
	if payer != nil {
		charge.Payer = payer
	}
	if u := a.UseOf(c.Class); u != nil {
		u.followDay()
		c.next().add(&u.Meter, now, c.Tokens)
	}
	if len(a.Extras) == 0 && payer == nil {
		return false
	}
	return a.bill(payer, Bill{At: now.Instant, Wall: now.Wall, Tokens: c.Tokens, Most: c.Most, InFlight: a.InFlight}, now)
}

// bill tells the extras of an account, and the spend of the payer, of a charge.
func (a *Account) bill(payer *Account, b Bill, now Now) (eased bool) {
	for _, x := range a.Extras {
		if x != Extra(a.Spend) || payer == a {
			eased = x.Charge(b, now) || eased
		}
	}
	if payer != nil && payer != a {
		payer.Spend.Charge(b, now)
	}
	return eased
}

// Record charges one request and its tokens for good, with what it has cost. It reports whether
// that eases a limit.
func (a *Account) Record(payer *Account, used state.Count, cost money.Amount, now Now, span int64) (eased bool) {
	a.begin(now)
	a.Meter.charge(now, used.Clamp())
	if len(a.Extras) == 0 && payer == nil {
		return false
	}
	return a.bill(payer, Bill{At: now.Instant, Wall: now.Wall, Tokens: used.Clamp(), Most: cost, InFlight: a.InFlight}, now)
}

// Ending is how and when a call ends.
type Ending struct {
	How  How
	Used state.Count  // where it was committed,
	Cost money.Amount // and what it did cost
	Now  Now
	Span int64 // how long a charge of the minute counts
}

// End ends the call: with what it used and cost where it was committed, with its estimate where it
// expired or was lost, and with nothing where it was cancelled.
func (c *Call) End(is *Ending) {
	c.Ended = true
	if is.How == Committed {
		c.Cost = is.Cost
	}
	for i := range c.Charges {
		c.Charges[i].end(c, is)
	}
}

func (c *Charge) end(call *Call, is *Ending) {
	m, a := c.Meter, c.Account()
	if a != nil && !a.IsFresh(is.Now, is.Span) {
		a.Refresh(is.Now, is.Span)
	}
	forgot := !c.isKnown()
	switch {
	case is.How == Cancelled:
		c.cancel()
	case is.How == Committed && is.Used != c.Tokens:
		c.settle(is)
	}
	if m.InFlight--; a == nil {
		return
	}
	a.closeOpen(call)
	if len(a.Extras) > 0 || c.Payer != nil {
		c.endBill(call, is, forgot)
	}
}

// endBill tells the extras of the account, and the spend of the payer, of the end.
func (c *Charge) endBill(call *Call, is *Ending, forgot bool) {
	a := c.Account()
	b := Bill{
		At: c.At, Wall: call.At.Wall, Tokens: call.Tokens, Used: call.usedBy(is), Most: call.Most, Cost: call.Cost,
		InFlight: a.InFlight, Forgot: forgot,
	}
	for _, x := range a.Extras {
		if x != Extra(a.Spend) || c.Payer == a {
			x.End(b, is.How, is.Now)
		}
	}
	if c.Payer != nil && c.Payer != a {
		c.Payer.Spend.End(b, is.How, is.Now)
	}
}

// usedBy returns the tokens that the call has used which ends.
func (c *Call) usedBy(is *Ending) state.Count {
	switch is.How {
	case Committed:
		return is.Used
	case Cancelled:
		return state.Count{}
	}
	return c.Tokens
}

// Arrive has the call count as of the instant at which its provider counted it. It never moves
// backwards. Its request is not given back from then on. It reports whether anything has changed.
func (c *Call) Arrive(at int64, now Now, span int64) (changed bool) {
	counts := c.At.Instant + c.Delay
	moves := at > counts
	for i := range c.Charges {
		if from := c.Charges[i].At; moves && c.Charges[i].move(now, span, at) {
			changed = true
			if a := c.Charges[i].Account(); a != nil {
				a.Recent.move(from, at, c.Most, now)
			}
		}
	}
	if changed {
		c.Delay += at - counts
	}
	if c.Arrived {
		return changed
	}
	for i := range c.Charges {
		if a := c.Charges[i].Account(); a != nil {
			a.Open.less(1, state.Count{}, 0)
			a.Open.Arrived++
		}
	}
	c.Arrived = true
	return true
}

// closeOpen is the end of what ChargeTo adds to Open.
func (a *Account) closeOpen(c *Call) {
	if a.InFlight == 0 {
		a.Open = Open{} // sums that were saturated begin anew
		return
	}
	requests := 1
	if c.Arrived {
		requests = 0
		a.Open.Arrived = max(a.Open.Arrived-1, 0) // an image may have told fewer
	}
	a.Open.less(requests, c.Tokens, c.Most)
}
