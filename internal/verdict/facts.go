package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The origins of quotas.
const (
	OriginProgram = "program" // the program set it
	OriginShared  = "shared"  // the program of some process set it in the shared database
	OriginAccount = "account" // the account's own limits
	OriginGiven   = "given"   // a profile or a file gave it
	OriginLearned = "learned" // a provider's reports have corrected it
)

// OriginOf returns who said a quota, of whose limits each was said by one: a report that corrected
// it, else the first in the order of their precedence.
func OriginOf(limits [state.Dimensions]state.Origin) string {
	switch least := slices.Min(limits[:]); {
	case slices.Contains(limits[:], state.Learned):
		return OriginLearned
	case least == state.Program:
		return OriginProgram
	case least == state.Account:
		return OriginAccount
	}
	return OriginGiven
}

// Facts is what is known of a model at one moment. The limiter gathers them, and Explanation.String
// shows their Text.
type Facts struct {
	Model, Counted string // as it was asked for, and the name under which it is counted
	Quota, Origin  string // the name of its quota, empty for none, and one of the origins
	Provider       string // of the quota, and the day it was read, if a profile has it
	ReadOn         time.Time
	At             time.Time // the moment; other times are shown in its zone
	Use
	Pools          []Pool
	OldestOpen     time.Duration // of the calls in flight, at least
	OpenOverMinute int
	Line           []Waiter // the first of those that wait
	Refused        *Refused // the last that was; nil for none
	Next           Next
	StoreError     string // why the shared database cannot be used; empty if it can
}

// Waiter is a caller that waits, and the tokens that it asks for.
type Waiter struct {
	Waited                     time.Duration
	PromptTokens, OutputTokens int

	Class string // empty for none
}

// Refused is a call that got no reservation.
type Refused struct {
	At           time.Time
	Code, Reason string
}

// Next is the decision on the smallest request.
type Next struct {
	Allowed, Never, Queued bool
	Reason                 string
	RetryAfter             time.Duration // zero if no time tells
}

// Text says in a few lines for a person why the model waits, or that it does not. The last line has
// no end.
func (f *Facts) Text() string {
	w := &lines{facts: f}
	w.verdict()
	w.quota()
	for i := range f.Limits {
		w.limit(&f.Limits[i])
	}
	for _, b := range f.Budgets {
		w.add("%s", w.spent(b))
	}
	if f.Found != nil {
		w.found(f.Found, f.InFlight, "")
	}
	if !f.limitsCalls() && !f.findsCalls() && f.InFlight > 0 {
		w.add("calls in flight: %d, unlimited", f.InFlight)
	}
	for i := range f.Pools {
		w.pool(&f.Pools[i])
	}
	w.open()
	w.line()
	if f.CooldownUntil.After(f.At) {
		w.add("cooldown: until %s, in %s: %s", w.time(f.CooldownUntil), duration(f.CooldownUntil.Sub(f.At)), state.CooldownSaid(f.Cause))
	}
	w.next()
	if r := f.Refused; r != nil {
		w.add("last refusal: %s ago, %s: %s", short(f.At.Sub(r.At)), r.Code, r.Reason)
	}
	if f.StoreError != "" {
		w.add("shared database: cannot be used: %s", f.StoreError)
	}
	return strings.Join(w.text, "\n  ")
}

func (f *Facts) limitsCalls() bool {
	for i := range f.Limits {
		if f.Limits[i].Limit == state.Limits[state.InFlight].Key {
			return true
		}
	}
	return false
}

func (f *Facts) limitsSpend() bool {
	return slices.ContainsFunc(f.Budgets, func(b Budget) bool { return b.Max != 0 })
}

// lines is the Text of facts as it is written.
type lines struct {
	facts *Facts
	text  []string
}

func (w *lines) add(format string, args ...any) {
	w.text = append(w.text, fmt.Sprintf(format, args...))
}

// verdict is the first line: the model, and whether it waits.
func (w *lines) verdict() {
	f, name := w.facts, fmt.Sprintf("%q", w.facts.Model)
	if f.Counted != f.Model {
		name += fmt.Sprintf(", counted as %q,", f.Counted)
	}
	switch n := &f.Next; {
	case n.Allowed:
		w.add("%s does not wait: %s", name, n.Reason)
	case n.Never:
		w.add("%s never passes: %s", name, n.Reason)
	case n.Queued:
		w.add("%s waits: %s", name, f.blocker()+n.Reason)
	default:
		w.add("%s waits: %s", name, n.Reason)
	}
}

func (w *lines) quota() {
	f := w.facts
	from := map[string]string{
		OriginProgram: ", set by the program", OriginShared: ", set in the shared database",
		OriginAccount: ", the account's own", OriginGiven: ", of a profile or a file", OriginLearned: ", corrected by the provider's reports",
	}[f.Origin]
	if f.Origin == OriginGiven && !f.ReadOn.IsZero() {
		from = fmt.Sprintf(", of the profile of %s, read on %s", f.Provider, f.ReadOn.Format(time.DateOnly))
		if days := int(f.At.Sub(f.ReadOn) / (24 * time.Hour)); days > 0 {
			from += ", " + counted(days, "day") + " ago"
		}
	}
	switch f.Quota {
	case "":
		w.add("quota: none")
		return
	case f.Counted:
		w.add("quota: its own%s", from)
	default:
		w.add("quota: that of %q%s", f.Quota, from)
	}
	if len(f.Limits) == 0 && f.Found == nil && !f.limitsSpend() {
		w.add("limits: none")
	}
}

// limit is the line of one limit.
func (w *lines) limit(l *Limit) { w.add("%s", w.used(l)) }

// used says how much of a limit is used.
func (w *lines) used(l *Limit) string {
	text := fmt.Sprintf("%s: %d of %d used", dimension(l.Limit), l.Used, l.Max)
	if l.External > 0 {
		text += fmt.Sprintf(", and %d by others of the account", l.External)
	}
	if l.RoomAt.After(w.facts.At) {
		text += ", full for " + duration(l.RoomAt.Sub(w.facts.At))
	}
	return text
}

// open is the line on calls that are open for long.
func (w *lines) open() {
	f := w.facts
	if f.OldestOpen < time.Second {
		return
	}
	text := fmt.Sprintf("oldest open call: at least %s old", short(f.OldestOpen))
	switch n := f.OpenOverMinute; {
	case n == 1:
		text += "; 1 call is open for more than a minute"
	case n > 1:
		text += fmt.Sprintf("; %d calls are open for more than a minute", n)
	}
	w.add("%s", text)
}

// line is the line on those that wait: for how long, and what the first asks for.
func (w *lines) line() {
	const most = 5 // ages
	f := w.facts
	if f.Waiting == 0 {
		return
	}
	text := "in line: " + counted(f.Waiting, "caller") + f.byClass()
	for i, waiter := range f.Line[:min(len(f.Line), most)] {
		switch {
		case i == 0:
			text += ", for "
		case i == f.Waiting-1:
			text += " and "
		default:
			text += ", "
		}
		text += short(waiter.Waited)
	}
	if len(f.Line) > 0 {
		if f.Waiting > most {
			text += ", …"
		}
		head := f.Line[0]
		text += fmt.Sprintf("; the first asks for %s", counted(head.PromptTokens, "input token"))
		if head.OutputTokens > 0 {
			text += " and " + counted(head.OutputTokens, "output token")
		}
	}
	w.add("%s", text)
}

// short shows an age that is no longer, in seconds; below a second in milliseconds.
func short(age time.Duration) string {
	if age < time.Second {
		return max(age, 0).Truncate(time.Millisecond).String()
	}
	return age.Truncate(time.Second).String()
}

// next is the line that says when the smallest request passes.
func (w *lines) next() {
	f, n := w.facts, &w.facts.Next
	const request = "next room: for a request of one token "
	switch {
	case n.Allowed:
		w.add(request + "now")
	case n.Never:
		w.add("next room: none, waiting does not help")
	case n.Queued && n.RetryAfter > 0:
		w.add(request+"when the line has passed, in %s at the earliest", duration(n.RetryAfter))
	case n.Queued:
		w.add(request + "when the line has passed")
	case n.RetryAfter > 0:
		w.add(request+"in %s, at %s", duration(n.RetryAfter), w.time(f.At.Add(n.RetryAfter)))
	default:
		w.add(request + "at a time that is not known")
	}
}

// time shows a time of the day, and the day if it is another.
func (w *lines) time(t time.Time) string {
	t = t.In(w.facts.At.Location())
	if t.Format(time.DateOnly) == w.facts.At.Format(time.DateOnly) {
		return t.Format("15:04:05 MST")
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// duration shows a duration that is no shorter: in milliseconds below a second, in tenths of a
// second below a minute, in seconds above.
func duration(d time.Duration) string {
	unit := time.Second
	switch {
	case d < time.Second:
		unit = time.Millisecond
	case d < time.Minute:
		unit = time.Second / 10
	}
	if up := d.Truncate(unit); up < d && up <= d+unit {
		d = up + unit
	} else {
		d = up
	}
	return d.String()
}

// dimension names what a limit limits.
func dimension(key string) string {
	of, ok := state.DimensionOf(key)
	if key == state.Budgets[state.TokensPerMonth].Key {
		return "tokens per month"
	}
	if !ok {
		return key
	}
	l := &state.Limits[of]
	if l.Window == state.Settled {
		return "calls in flight"
	}
	what := "tokens"
	switch {
	case l.Counts:
		what = "requests"
	case l.Tokens == state.InputTokens:
		what = "input tokens"
	case l.Tokens == state.OutputTokens:
		what = "output tokens"
	}
	if l.Window == state.Day {
		return what + " per day"
	}
	return what + " per minute"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
