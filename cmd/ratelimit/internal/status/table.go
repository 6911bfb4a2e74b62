package status

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// words are what limits are called by their keys in files.
var words = map[string]string{
	"max_rpm": "requests/minute", "max_tpm": "tokens/minute", "max_itpm": "input tokens/minute",
	"max_otpm": "output tokens/minute", "max_rpd": "requests/day", "max_tpd": "tokens/day",
	"max_in_flight": "calls in flight", "max_tokens_per_month": "tokens/month",
	"max_spend_per_ten_minutes": "spend/10 minutes", "max_spend_per_day": "spend/day", "max_spend_per_month": "spend/month",
}

// table writes a report for people.
type table struct {
	*tabwriter.Writer
	at    time.Time
	notes []string // why models wait
}

// Write writes the report as a table, one line a limit.
func (r *Report) Write(to io.Writer) error {
	var text bytes.Buffer
	t := &table{Writer: tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0), at: r.At}
	if len(r.Models) == 0 {
		fmt.Fprintln(t, "no model has a quota or usage")
	}
	t.head(len(r.Models), "MODEL\tLIMIT\tUSED\tLEFT\tNEXT ROOM\tOPEN\tIN LINE")
	for i := range r.Models {
		t.model(&r.Models[i])
	}
	t.head(len(r.Pools), "\nPOOL\tLIMIT\tUSED\tLEFT\tNEXT ROOM\tOPEN\tIN LINE")
	for i := range r.Pools {
		t.block(r.Pools[i].Pool, &r.Pools[i], nil)
	}
	t.head(len(r.Processes), "\nPROCESS\tOPEN\tIN LINE\tHEARD\tOF WHICH MODELS")
	for i := range r.Processes {
		t.process(&r.Processes[i])
	}
	t.Flush()
	for _, warning := range r.Warnings {
		t.notes = append(t.notes, "warning: "+warning)
	}
	if len(t.notes) > 0 {
		fmt.Fprintf(&text, "\n%s\n", strings.Join(t.notes, "\n"))
	}
	_, err := to.Write(trimmed(bytes.Map(printable, text.Bytes())))
	return err
}

// printable replaces what a terminal would not show as it is: clients name models.
func printable(r rune) rune {
	if r == '\n' || unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// head begins a table, if it has anything.
func (t *table) head(rows int, names string) {
	if t.Flush(); rows > 0 {
		fmt.Fprintln(t, names)
	}
}

// trimmed returns text without the space that ends a line whose last cells are empty.
func trimmed(text []byte) []byte {
	var to []byte
	for line := range bytes.Lines(text) {
		to = append(append(to, bytes.TrimRight(line, " \n")...), '\n')
	}
	return to
}

func (t *table) model(e *ratelimit.Explanation) {
	name := e.Model
	if e.Counted != e.Model {
		name += " as " + e.Counted
	}
	is := &ratelimit.PoolState{
		Limits: e.Limits, Budgets: e.Budgets, Found: e.Found, InFlight: e.InFlight, Waiting: e.Waiting,
		CooldownUntil: e.CooldownUntil, Cause: e.Cause,
	}
	t.block(name, is, e)
}

// row is a line of a table but for what stands in front of it and behind it.
type row struct{ limit, used, left, room string }

// block writes the lines of a model or, where e is nil, of a pool.
func (t *table) block(name string, is *ratelimit.PoolState, e *ratelimit.Explanation) {
	rows := t.limits(is)
	if is.CooldownUntil.After(t.at) {
		rows = append(rows, row{"cooldown", string(is.Cause), "", t.in(is.CooldownUntil)})
		t.notes = append(t.notes, fmt.Sprintf("%s is in a cooldown: %s", name, state.CooldownSaid(string(is.Cause))))
	} else if e != nil && !e.Next.Allowed {
		rows = append(rows, row{limit: "next call", room: t.next(&e.Next)})
		note := fmt.Sprintf("%s waits: %s", name, e.Next.Reason)
		if len(e.Line) > 0 {
			note += fmt.Sprintf("; the first in line has waited %s", age(e.Line[0].Waited))
		}
		t.notes = append(t.notes, note)
	}
	if len(rows) == 0 {
		rows = append(rows, row{limit: "none", room: "now"})
	}
	for i, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s", name, r.limit, r.used, r.left, r.room)
		if name = ""; i == 0 {
			fmt.Fprintf(t, "\t%d\t%d\n", is.InFlight, is.Waiting)
		} else {
			fmt.Fprint(t, "\t\t\n")
		}
	}
}

// next says when the smallest request passes that does not now.
func (t *table) next(d *ratelimit.Decision) string {
	switch {
	case d.Never:
		return "never"
	case d.Code == ratelimit.DecisionQueued:
		return "after the line"
	case d.RetryAfter > 0:
		return t.in(t.at.Add(d.RetryAfter))
	}
	return "not known"
}

// limits returns a row for each limit and each budget.
func (t *table) limits(is *ratelimit.PoolState) (rows []row) {
	for _, l := range is.Limits {
		used := fmt.Sprintf("%d of %d", l.Used, l.Max)
		if l.External > 0 {
			used += fmt.Sprintf(" and %d by others", l.External)
		}
		room := "now"
		switch {
		case l.RoomAt.After(t.at):
			room = t.in(l.RoomAt)
		case l.Left <= 0 && l.Limit == "max_in_flight":
			room = "when a call ends"
		case l.Left <= 0:
			room = "not known"
		}
		rows = append(rows, row{cmp.Or(words[l.Limit], l.Limit), used, fmt.Sprint(l.Left), room})
	}
	for _, b := range is.Budgets {
		r := row{limit: cmp.Or(words[b.Limit], b.Limit), used: b.Spent.String()}
		if b.Max > 0 {
			left := max(b.Max.Sub(b.Spent), 0)
			r.used, r.left, r.room = r.used+" of "+b.Max.String(), left.String(), "now"
			if left == 0 {
				r.room = t.in(b.Until)
			}
		}
		rows = append(rows, r)
	}
	if f := is.Found; f != nil && f.RPM > 0 {
		rows = append(rows, row{limit: "found requests/minute", used: fmt.Sprintf("%d, of %d to %d", f.RPM, f.FloorRPM, f.CeilingRPM)})
	}
	if f := is.Found; f != nil && f.InFlight > 0 {
		rows = append(rows, row{limit: "found calls in flight", used: fmt.Sprintf("%d, of %d to %d", f.InFlight, f.FloorInFlight, f.CeilingInFlight)})
	}
	return rows
}

func (t *table) process(p *ratelimit.ProcessState) {
	models := make(map[string]bool)
	for _, part := range []map[string]int{p.InFlight, p.Waiting} {
		for model := range part {
			models[model] = true
		}
	}
	var of []string
	for _, model := range slices.Sorted(maps.Keys(models)) {
		text := model
		if open := p.InFlight[model]; open > 0 {
			text += fmt.Sprintf(" %d open with %d tokens", open, p.Tokens[model])
		}
		if n := p.Waiting[model]; n > 0 {
			text += fmt.Sprintf(" %d in line", n)
		}
		of = append(of, text)
	}
	heard := "has left"
	if !p.HeardAt.IsZero() {
		heard = age(t.at.Sub(p.HeardAt)) + " ago"
	}
	fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\n", name(p), total(p.InFlight), total(p.Waiting), heard, strings.Join(of, ", "))
}

// name is a process for people: the numbers are random, so a part of one tells it from the others.
func name(p *ratelimit.ProcessState) string { return p.ID[:min(len(p.ID), 8)] }

// in shows how far off a time is, rounded up to seconds.
func (t *table) in(at time.Time) string {
	return "in " + short((at.Sub(t.at) + time.Second - 1).Truncate(time.Second))
}

// age shows how long something lasts, rounded down to seconds.
func age(d time.Duration) string { return short(max(d, 0).Truncate(time.Second)) }

// short shows a duration without units that are zero at its end.
func short(d time.Duration) string {
	text := d.String()
	if d >= time.Minute && d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
