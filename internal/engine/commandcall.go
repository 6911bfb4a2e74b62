package engine

import (
	"fmt"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// Want is a Request whose names are not resolved yet.
type Want struct {
	Name
	Tokens state.Count
	Most   money.Amount
	Priced bool
	Deny   bool
}

// WantsOf appends requests as a command has them.
func WantsOf(to []Want, asked []Request) []Want {
	for i := range asked {
		r := &asked[i]
		name := Name{Asked: r.Asked, Counted: r.Counted}
		to = append(to, Want{Name: name, Tokens: r.Tokens, Most: r.Most, Priced: r.Priced, Deny: r.Deny})
	}
	return to
}

func appendWants(to []byte, wants []Want) []byte {
	to = wire.AppendUint(to, uint64(len(wants)))
	for i := range wants {
		w := &wants[i]
		to = appendMoney(appendTokens(w.append(to), w.Tokens), w.Most)
		to = wire.AppendBool(wire.AppendBool(to, w.Priced), w.Deny)
	}
	return to
}

// ErrTooMany is the error of more requests, or candidates of a waiter, than a command carries.
var ErrTooMany = fmt.Errorf("a shared quota takes at most %d requests at once, and %d candidates", mostRequests, mostOptions)

// IsTooLarge reports whether a command has more requests or candidates than it carries.
func IsTooLarge(c Command) bool {
	switch c := c.(type) {
	case Admit:
		return len(c.Wants) > mostRequests
	case Enter:
		n := 0
		for _, wants := range c.Options {
			n += len(wants)
		}
		return n > mostRequests || len(c.Options) > mostOptions
	}
	return false
}

// readWants reads requests into room, if they fit there.
func readWants(r *wire.Reader, room []Want) []Want {
	const leastWant = 7
	n := r.Count(mostRequests, leastWant)
	wants := slices.Grow(room[:0], n)[:n]
	if len(wants) == 0 {
		r.Fail("no requests")
	}
	for i := range wants {
		wants[i] = Want{Name: readModel(r), Tokens: readTokens(r), Most: readMoney(r), Priced: r.Bool(), Deny: r.Bool()}
	}
	return wants
}

// requests appends the requests that wants are here and now.
func (e *Engine) requests(to []Request, wants []Want) []Request {
	for i := range wants {
		w := &wants[i]
		to = append(to, Request{Target: e.Resolve(w.Counted, w.Asked), Tokens: w.Tokens, Most: w.Most, Priced: w.Priced, Deny: w.Deny})
	}
	return to
}

func (by *By) append(to []byte) []byte {
	to = wire.AppendString(wire.AppendString(to, by.Class), by.Flow)
	to = wire.AppendUint(to, uint64(by.Span-account.Minute))
	return wire.AppendUint(wire.AppendUint(to, uint64(by.HoldTTL)), uint64(by.MaxQueue))
}

func readBy(r *wire.Reader) By {
	return By{
		Class: readString(r), Flow: readString(r), Span: readSpanOf(r),
		HoldTTL: int64(r.UpTo(uint64(longestHold))), MaxQueue: int(r.UpTo(math.MaxInt)),
	}
}

// readSpanOf reads how long a charge of the minute counts for a process.
func readSpanOf(r *wire.Reader) int64 {
	return account.Minute + int64(r.UpTo(uint64(longestSpan-account.Minute)))
}

// isKnown reports whether any of the calls that a command would make are there already.
func (e *Engine) isKnown(id account.ID, calls int) bool {
	if e.waiters[id] != nil {
		return true
	}
	for id.Place = range int32(calls) {
		if e.Call(id) != nil || e.told.has(id) {
			return true
		}
	}
	return false
}

// Admit is Engine.Admit. The number of By is that of the command.
type Admit struct {
	By    By
	Wants []Want
}

// Append appends the command.
func (c Admit) Append(to []byte) []byte {
	return appendWants(c.By.append(wire.AppendUint(to, kindAdmit)), c.Wants)
}

func readAdmit(r *wire.Reader) Command { return Admit{By: readBy(r), Wants: readWants(r, nil)} }

func (c Admit) apply(e *Engine, id account.ID, now account.Now) (o Outcome) {
	if o.Ignored = len(c.Wants) == 0 || e.isKnown(id, len(c.Wants)); o.Ignored {
		return o
	}
	c.By.ID = id
	var calls []*account.Call
	e.asked = e.requests(e.asked[:0], c.Wants)
	e.observer.Asked(e.asked, now)
	calls, o.Verdict = e.Admit(nil, &c.By, e.asked, now)
	o.Calls = idsOf(calls)
	return o
}

// Enter is Engine.Enter, for a waiter with some options. The number of By is that of the command.
type Enter struct {
	By       By
	Deadline int64 // the instant from which on it is not served; account.Never for none
	Patient  int64 // the instant until which the first option stands alone; 0 for none
	OnlyRoom bool  // it makes no calls, and only waits for room
	Options  [][]Want
	Others   []InLine // where the options behind the first stand; nil where By says it for all
}

// InLine is where an option stands in line.
type InLine struct{ Class, Flow string }

// ByOf returns by what an option asks.
func (c *Enter) ByOf(option int) By {
	by := c.By
	if option > 0 && c.Others != nil {
		by.Class, by.Flow = c.Others[option-1].Class, c.Others[option-1].Flow
	}
	return by
}

// Append appends the command.
func (c Enter) Append(to []byte) []byte {
	to = c.By.append(wire.AppendUint(to, kindEnter))
	to = wire.AppendUint(wire.AppendUint(to, uint64(c.Deadline)), uint64(c.Patient))
	to = wire.AppendUint(wire.AppendBool(to, c.OnlyRoom), uint64(len(c.Options)))
	for _, wants := range c.Options {
		to = appendWants(to, wants)
	}
	to = wire.AppendUint(to, uint64(len(c.Others)))
	for _, is := range c.Others {
		to = wire.AppendString(wire.AppendString(to, is.Class), is.Flow)
	}
	return to
}

func readEnter(r *wire.Reader) Command {
	c := Enter{
		By: readBy(r), Deadline: int64(r.UpTo(math.MaxInt64)), Patient: int64(r.UpTo(math.MaxInt64)), OnlyRoom: r.Bool(),
	}
	c.Options = make([][]Want, r.Count(mostOptions, 8))
	if len(c.Options) == 0 {
		r.Fail("no options")
	}
	for i, left := 0, mostRequests; i < len(c.Options) && r.Err() == nil; i++ {
		c.Options[i] = readWants(r, nil)
		if left -= len(c.Options[i]); left < 0 {
			r.Fail("too many requests")
		}
	}
	if n := r.Count(mostOptions, 2); n > 0 {
		c.Others = make([]InLine, n)
		for i := range c.Others {
			c.Others[i] = InLine{Class: readString(r), Flow: readString(r)}
		}
		if n != len(c.Options)-1 {
			r.Fail("another number of options")
		}
	}
	return c
}

func (c Enter) apply(e *Engine, id account.ID, now account.Now) (o Outcome) {
	most := 0
	options := make([]Option, len(c.Options))
	c.By.ID = id
	for i, wants := range c.Options {
		most = max(most, len(wants))
		options[i] = Option{By: c.ByOf(i), Requests: e.requests(nil, wants)}
	}
	if o.Ignored = most == 0 || e.isKnown(id, most); o.Ignored {
		return o
	}
	w := NewWaiter(options...)
	w.Deadline, w.Patient, w.Charges = c.Deadline, c.Patient, !c.OnlyRoom
	e.Enter(w, now)
	if o.Waits = !w.Over; o.Waits {
		if o.Verdict = w.Denied; e.waiters == nil {
			e.waiters = make(map[account.ID]*lines.Waiter)
		}
		e.waiters[id] = w
	}
	return o
}

// Leave is Engine.Leave. Places is how many calls the waiter would have made at most: those that
// are open are cancelled if it was served meanwhile.
type Leave struct {
	Process, N int64
	Places     int
}

// Append appends the command.
func (c Leave) Append(to []byte) []byte {
	to = wire.AppendInt(wire.AppendInt(wire.AppendUint(to, kindLeave), c.Process), c.N)
	return wire.AppendUint(to, uint64(c.Places))
}

func readLeave(r *wire.Reader) Command {
	return Leave{Process: r.Int(), N: r.Int(), Places: int(r.UpTo(mostRequests))}
}

func (c Leave) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	id := account.ID{Process: c.Process, N: c.N}
	if w := e.waiters[id]; w != nil {
		delete(e.waiters, id)
		e.Leave(w, now)
		return o
	}
	o.Ignored = true
	for id.Place = range int32(min(c.Places, mostRequests)) {
		if call := e.Call(id); call != nil {
			o.Ignored = false
			e.Settle(call, account.Cancelled, state.Count{}, 0, now)
		}
	}
	return o
}

// Settle is Engine.Settle. Used and Cost count where the call was committed.
type Settle struct {
	ID   account.ID
	How  account.How
	Used state.Count
	Cost money.Amount
}

// Append appends the command.
func (c Settle) Append(to []byte) []byte {
	to = wire.AppendUint(appendID(wire.AppendUint(to, kindSettle), c.ID), uint64(c.How))
	if c.How == account.Committed {
		to = appendMoney(appendTokens(to, c.Used), c.Cost)
	}
	return to
}

func readSettle(r *wire.Reader) Command { return settleOf(r) }

func settleOf(r *wire.Reader) Settle {
	c := Settle{ID: readID(r), How: account.How(r.UpTo(uint64(account.Lost)))}
	if c.How == account.Committed {
		c.Used, c.Cost = readUsed(r), readMoney(r)
	}
	return c
}

func (c Settle) apply(e *Engine, id account.ID, now account.Now) (o Outcome) {
	call := e.Call(c.ID)
	if o.Ignored = call == nil; o.Ignored {
		return o
	}
	if id.Process != c.ID.Process { // it tells what others may tell as a fact
		e.told.add(c.ID, now.Instant)
	}
	e.Settle(call, c.How, c.Used, c.Cost, now)
	return o
}

// Arrive is Engine.Arrive: the provider counted the call at an instant.
type Arrive struct {
	ID account.ID
	At int64
}

// Append appends the command.
func (c Arrive) Append(to []byte) []byte {
	return wire.AppendInt(appendID(wire.AppendUint(to, kindArrive), c.ID), c.At)
}

func readArrive(r *wire.Reader) Command { return Arrive{ID: readID(r), At: r.Int()} }

func (c Arrive) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	call := e.Call(c.ID)
	if o.Ignored = call == nil; !o.Ignored {
		e.Arrive(call, c.At, now)
	}
	return o
}

// Record is Engine.Record.
type Record struct {
	Name
	Span int64 // see By.Span
	Used state.Count
	Cost money.Amount
}

// Append appends the command.
func (c Record) Append(to []byte) []byte {
	to = c.Name.append(wire.AppendUint(to, kindRecord))
	return appendMoney(appendTokens(wire.AppendUint(to, uint64(c.Span-account.Minute)), c.Used), c.Cost)
}

func readRecord(r *wire.Reader) Command {
	return Record{Name: readModel(r), Span: readSpanOf(r), Used: readUsed(r), Cost: readMoney(r)}
}

func (c Record) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	t := e.Resolve(c.Counted, c.Asked)
	o.Done = e.Record(&t, c.Span, c.Used, c.Cost, now) != nil
	return o
}
