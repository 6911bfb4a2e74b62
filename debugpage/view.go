package debugpage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// modelView is a model as the templates show it.
type modelView struct {
	ID      string
	Name    string
	Details []string
	ReadOn  moment // when the profile of the quota was read
	Kind    kind
	State   string // in one or two words
	Why     string
	Room    moment
	NoRoom  string // what the next room depends on, if no time tells
	Limits  []limitView
	Found   []foundView // the limits that are searched for
	Free    string      // the use of a model without limits

	Open       int
	OldestOpen moment
	OverMinute int
	Waiting    int
	ByClass    string // the classes of those that wait
	Line       []waiterView
	Behind     int // waiters that Line leaves out
	Refused    *refusedView
}

// kind is the class of a state.
type kind string

const (
	kindStop kind = "stop" // the next request waits for something other than the end of a minute
	kindWait kind = "wait"
	kindFree kind = "free"
)

// moment is a time and the same in words, seen from the moment of the page. page.js keeps the words
// right.
type moment struct{ time, from time.Time }

func (m moment) IsZero() bool { return m.time.IsZero() }
func (m moment) Time() string { return m.time.UTC().Format("2006-01-02T15:04:05.000Z") }

// Until, Age and Ago are the words for a time to come and for one that has been.
func (m moment) Until() string {
	d := m.time.Sub(m.from)
	if d <= 0 {
		return "now"
	}
	return "in " + length(d+time.Second-time.Millisecond)
}
func (m moment) Age() string { return length(m.from.Sub(m.time)) }
func (m moment) Ago() string { return m.Age() + " ago" }

type waiterView struct {
	Since moment
	Size  string
	Class string
}

type refusedView struct {
	At     moment
	State  string
	Reason string
}

// maxLine is how many waiters of a model are shown.
const maxLine = 3

// viewOf returns the view of a row, seen from a moment.
func viewOf(r *row, now time.Time) modelView {
	e := &r.explained
	v := modelView{
		ID: rowID(r), Name: nameText(e.Model), Open: e.InFlight, OverMinute: e.OpenOverMinute, Waiting: e.Waiting,
		Details: detailsOf(e), ReadOn: moment{e.ProfileReadOn, now},
		Limits: limitsOf(e.Limits, e.Budgets, now), ByClass: classText(e.WaitingByClass),
	}
	v.state(e, now)
	if v.Found = foundOf(e, now); len(v.Limits) == 0 && len(v.Found) == 0 {
		s := &e.Next.Stats
		v.Free = counted(s.RPM, "request") + ", " + counted(s.TPM, "token") + " in the last minute"
	}
	if e.OldestOpen > 0 && !agesVague(e) {
		v.OldestOpen = moment{e.At.Add(-e.OldestOpen), now}
	}
	for _, w := range e.Line[:min(len(e.Line), maxLine)] {
		size := number(w.PromptTokens) + " + " + counted(w.OutputTokens, "token")
		is := waiterView{Since: moment{e.At.Add(-w.Waited), now}, Size: size}
		if w.Class != "" {
			is.Class = nameText(w.Class)
		}
		v.Line = append(v.Line, is)
	}
	v.Behind = max(0, e.Waiting-len(v.Line))
	if l := e.LastRefusal; l != nil {
		v.Refused = &refusedView{moment{l.At, now}, stateText(l.Code), l.Reason}
	}
	return v
}

func rowID(r *row) string { return "m" + strconv.FormatUint(r.id, 10) }

// detailsOf says what a model is part of, what it costs, and which quota it has; behind that stands
// when it was read.
func detailsOf(e *ratelimit.Explanation) (details []string) {
	if e.Provider != "" {
		details = append(details, nameText(string(e.Provider)))
	}
	if e.Counted != e.Model {
		details = append(details, "counted as "+nameText(e.Counted))
	}
	if pools := poolsOf(e); pools != "" {
		details = append(details, pools)
	}
	for _, b := range e.Budgets {
		if b.Max == 0 { // the others have bars
			details = append(details, budgetText(&b))
		}
	}
	origin := originWords[e.Origin]
	if !e.ProfileReadOn.IsZero() {
		origin = originWords["profile"]
	}
	switch e.Quota {
	case "":
	case e.Counted:
		details = append(details, "quota "+origin)
	default:
		details = append(details, "quota of "+nameText(e.Quota)+", "+origin)
	}
	return details
}

// poolsOf names the pools of a model.
func poolsOf(e *ratelimit.Explanation) string {
	var names []string
	for i := range e.Pools {
		names = append(names, e.Pools[i].Pool)
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "in pool " + namesText(names)
	}
	return "in pools " + namesText(names)
}

// budgetText says what was spent in a day or a month.
func budgetText(b *ratelimit.BudgetState) string {
	text := b.Spent.String() + " spent"
	switch b.Limit {
	case "max_spend_per_month":
		return text + " this month"
	case "max_spend_per_ten_minutes":
		return text + " in ten minutes"
	}
	return text + " today"
}

// state says what blocks the model, if anything does, and when there is room again.
func (v *modelView) state(e *ratelimit.Explanation, now time.Time) {
	d := &e.Next
	v.Kind, v.State, v.Why = kindWait, stateText(d.Code), d.Reason
	if d.RetryAfter > 0 {
		v.Room = moment{e.At.Add(d.RetryAfter), now}
	}
	switch {
	case d.Never:
		v.Kind, v.NoRoom = kindStop, "waiting does not help"
	case d.Code == ratelimit.DecisionStoreError:
		v.Kind, v.NoRoom = kindStop, "when it can be used again"
	case e.CooldownUntil.After(e.At):
		v.Kind, v.State, v.Why = kindStop, stateText(ratelimit.DecisionCooldown), causeText(e.Cause)
		if v.Room.IsZero() || v.Room.time.Before(e.CooldownUntil) {
			v.Room = moment{e.CooldownUntil, now}
		}
	case e.Waiting > 0:
		v.head(e)
	case d.Allowed:
		v.Kind, v.Why = kindFree, ""
	case d.Code == ratelimit.DecisionRPDLimit || d.Code == ratelimit.DecisionTPDLimit || d.Code == ratelimit.DecisionMonthLimit ||
		d.Code == ratelimit.DecisionSpendLimit:
		v.Kind = kindStop
	case d.Code == ratelimit.DecisionInFlightLimit:
		v.NoRoom = "when a call ends"
	case d.Code == ratelimit.DecisionRPMLimit && e.Found != nil && !isUsedUp(e, "max_rpm"):
		v.State = stateSpaced
	}
}

// isUsedUp reports whether nothing is left of a limit.
func isUsedUp(e *ratelimit.Explanation, limit string) bool {
	return slices.ContainsFunc(e.Limits, func(l ratelimit.LimitState) bool { return l.Limit == limit && l.Left <= 0 })
}

// head says what the first in line waits for: a limit that leaves less than it needs.
func (v *modelView) head(e *ratelimit.Explanation) {
	v.NoRoom = "when the line has passed"
	if len(e.Line) == 0 {
		return
	}
	state, why, end := blockOf(e.Limits, e.Budgets, &e.Line[0])
	for i := 0; state == "" && i < len(e.Pools); i++ {
		p := &e.Pools[i]
		if state, why, end = blockOf(p.Limits, p.Budgets, &e.Line[0]); state != "" {
			why = "the pool " + nameText(p.Pool) + ": " + why
		}
	}
	if state != "" {
		v.State, v.Why = state, why
		if end.kind == kindStop {
			v.Kind = kindStop
		}
	} else if state, why = foundBlock(e); state != "" {
		v.State, v.Why = state, why
	}
}

// blockEnd is when a limit blocks no more: at a time, or in words.
type blockEnd struct {
	kind   kind
	room   time.Time
	noRoom string
}

// blockOf says which limit or budget leaves less than a waiter needs, or nothing if that is nil.
// The state is empty if none does.
func blockOf(limits []ratelimit.LimitState, budgets []ratelimit.BudgetState, w *ratelimit.Waiter) (state, why string, end blockEnd) {
	for i := range limits {
		l := &limits[i]
		need := 1
		if w != nil {
			need = needOf(l.Limit, w)
		}
		if need <= l.Left {
			continue
		}
		end = blockEnd{kind: kindWait, room: l.RoomAt}
		if strings.HasSuffix(l.Limit, "pd") || strings.HasSuffix(l.Limit, "month") {
			end.kind = kindStop
		}
		state = limitStates[l.Limit]
		switch {
		case l.Limit == "max_in_flight":
			why, end.noRoom = "calls in flight are at the limit", "when a call ends"
		case l.Left <= 0:
			why = "nothing is left of the " + limitText(l.Limit)
		default:
			state = "large request"
			why = fmt.Sprintf("the first in line needs %s of the %s, and %s are left", number(need), limitText(l.Limit), number(l.Left))
		}
		return state, why, end
	}
	for i := range budgets {
		if b := &budgets[i]; b.Max > 0 && b.Spent >= b.Max {
			return stateText(ratelimit.DecisionSpendLimit), "nothing is left of the " + limitText(b.Limit), blockEnd{kind: kindStop, room: b.Until}
		}
	}
	return "", "", blockEnd{}
}

// limitStates are the states of models that have used up a limit.
var limitStates = map[string]string{
	"max_in_flight": stateWords[ratelimit.DecisionInFlightLimit],
	"max_rpm":       stateWords[ratelimit.DecisionRPMLimit],
	"max_rpd":       stateWords[ratelimit.DecisionRPDLimit],
	"max_tpm":       stateWords[ratelimit.DecisionTPMLimit],
	"max_tpd":       stateWords[ratelimit.DecisionTPDLimit],
	"max_itpm":      stateWords[ratelimit.DecisionITPMLimit],
	"max_otpm":      stateWords[ratelimit.DecisionOTPMLimit],

	"max_tokens_per_month": stateWords[ratelimit.DecisionMonthLimit],
}

// needOf returns how much of a limit a waiter needs.
func needOf(limit string, w *ratelimit.Waiter) int {
	switch limit {
	case "max_itpm":
		return w.PromptTokens
	case "max_otpm":
		return w.OutputTokens
	case "max_tpm", "max_tpd", "max_tokens_per_month":
		return w.PromptTokens + w.OutputTokens
	}
	return 1
}
