package engine

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Cool is Engine.Cool.
type Cool struct {
	Name
	Until int64 // in UnixNano
	Cause string
}

// Append appends the command.
func (c Cool) Append(to []byte) []byte {
	return wire.AppendString(wire.AppendUint(c.Name.append(wire.AppendUint(to, kindCool)), uint64(c.Until)), c.Cause)
}

func readCool(r *wire.Reader) Command {
	c := Cool{Name: readName(r), Until: int64(r.UpTo(uint64(farthest))), Cause: readString(r)}
	if state.KeptCause(c.Cause) != c.Cause {
		r.Fail("cause of another form")
	}
	return c
}

func (c Cool) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	o.Done = e.Cool(c.Counted, c.Asked, c.Until, c.Cause, now)
	return o
}

// Observe is Engine.Report.
type Observe struct {
	Name
	Span   int64 // see By.Span
	Report Report
}

// Append appends the command.
func (c Observe) Append(to []byte) []byte {
	to = c.Name.append(wire.AppendUint(to, kindObserve))
	to = wire.AppendUint(to, uint64(c.Span-account.Minute))
	to = appendLimits(to, &c.Report.Limits)
	u := &c.Report.Uncounted
	to = appendMoney(appendTokens(wire.AppendInt(to, int64(u.Requests)), u.Count), u.Money)
	to = wire.AppendBool(wire.AppendInt(to, int64(u.Billed)), u.Priced)
	for _, n := range c.Report.Counted {
		to = wire.AppendUint(to, uint64(n))
	}
	return wire.AppendBool(wire.AppendBool(wire.AppendInt(to, c.Report.SentAt), c.Report.Learns), c.Report.Refused)
}

func readObserve(r *wire.Reader) Command {
	c := Observe{Name: readName(r), Span: readSpanOf(r)}
	c.Report.Limits = readLimits(r)
	c.Report.Uncounted = readCost(r)
	for i := range c.Report.Counted {
		c.Report.Counted[i] = int(r.UpTo(math.MaxInt))
	}
	c.Report.SentAt, c.Report.Learns, c.Report.Refused = r.Within(-farthest, farthest), r.Bool(), r.Bool()
	return c
}

func appendLimits(to []byte, limits *state.ReportedLimits) []byte {
	for i := range limits {
		l := &limits[i]
		to = wire.AppendInt(wire.AppendInt(to, int64(l.Limit)), int64(l.Remaining))
		to = wire.AppendInt(wire.AppendBool(to, l.HasRemaining), int64(l.Reset))
		to = wire.AppendInt(to, int64(l.Rounding))
	}
	return to
}

func readLimits(r *wire.Reader) (limits state.ReportedLimits) {
	for i := range limits {
		l := &limits[i]
		l.Limit, l.Remaining = r.Small(math.MinInt, math.MaxInt), r.Small(math.MinInt, math.MaxInt)
		l.HasRemaining, l.Reset = r.Bool(), time.Duration(r.Int())
		l.Rounding = r.Small(math.MinInt, math.MaxInt)
	}
	return limits
}

func readCost(r *wire.Reader) state.Cost {
	return state.Cost{
		Requests: r.Small(0, math.MaxInt), Count: readUsed(r), Money: readMoney(r),
		Billed: r.Small(0, math.MaxInt), Priced: r.Bool(),
	}
}

func (c Observe) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	t := e.Resolve(c.Counted, c.Asked)
	o.Done = e.Report(&t, &c.Report, c.Span, now)
	return o
}

// Refuse is Engine.Refuse: the provider has refused a call of a model.
type Refuse struct {
	Name
	Refusal account.ProviderRefusal
}

// Append appends the command.
func (c Refuse) Append(to []byte) []byte {
	to = wire.AppendBool(c.Name.append(wire.AppendUint(to, kindRefuse)), c.Refusal.Overload)
	return wire.AppendUint(wire.AppendUint(to, uint64(c.Refusal.Took)), uint64(c.Refusal.Wait))
}

func readRefuse(r *wire.Reader) Command {
	c := Refuse{Name: readModel(r), Refusal: account.ProviderRefusal{Overload: r.Bool()}}
	c.Refusal.Took, c.Refusal.Wait = int64(r.UpTo(uint64(farthest))), int64(r.UpTo(uint64(farthest)))
	return c
}

func (c Refuse) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	t := e.Resolve(c.Counted, c.Asked)
	o.Done = e.Refuse(&t, c.Refusal, now)
	return o
}

// Reset is Engine.Reset: of a counted name, or of all where it is "".
type Reset struct{ Counted string }

// Append appends the command.
func (c Reset) Append(to []byte) []byte {
	return wire.AppendString(wire.AppendUint(to, kindReset), c.Counted)
}

func readReset(r *wire.Reader) Command { return Reset{Counted: readString(r)} }

func (c Reset) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	e.Reset(c.Counted, now)
	return o
}

// Bounds is Engine.Bounds: the day and the month of a zone at the moment. The zone "" has no day.
type Bounds struct {
	Zone       string
	Day, Month account.Span
}

// Append appends the command.
func (c Bounds) Append(to []byte) []byte {
	return appendSpan(appendSpan(wire.AppendString(wire.AppendUint(to, kindBounds), c.Zone), c.Day), c.Month)
}

func readBounds(r *wire.Reader) Command {
	return Bounds{Zone: readString(r), Day: readSpan(r), Month: readSpan(r)}
}

func (c Bounds) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	isDay := c.Zone == "" && c.Day == (account.Span{}) || c.Zone != "" && lasts(c.Day, longestDay, now)
	if o.Ignored = !isDay || !lasts(c.Month, longestMonth, now); !o.Ignored {
		e.Bounds(c.Zone, c.Day, c.Month, now)
	}
	return o
}

// lasts reports whether a period of at most a length lasts at a moment.
func lasts(s account.Span, longest int64, now account.Now) bool {
	return s.Begin > 0 && s.Holds(now.Wall) && s.End-s.Begin <= longest
}

// Advance is Engine.Advance: what is due by itself happens.
type Advance struct{}

// Append appends the command.
func (Advance) Append(to []byte) []byte { return wire.AppendUint(to, kindAdvance) }

func readAdvance(*wire.Reader) Command { return Advance{} }

func (Advance) apply(*Engine, account.ID, account.Now) (o Outcome) { return o }
