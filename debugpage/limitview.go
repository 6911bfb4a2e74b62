package debugpage

import (
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// limitView is a limit as the templates show it.
type limitView struct {
	Key, Words string
	Used, Max  string
	Others     string // the external usage; empty for none
	Room       moment
	Title      string
	Level      string // "full", "high" or ""
	// Parts are the parts of the bar, from its left end.
	Parts []barPart
}

// barPart is a part of a bar. X and Width are percentages of the bar.
type barPart struct{ Class, X, Width string }

// limitsOf returns the views of limits, and of the budgets that limit something.
func limitsOf(limits []ratelimit.LimitState, budgets []ratelimit.BudgetState, now time.Time) (all []limitView) {
	for i := range limits {
		all = append(all, limitOf(&limits[i], now))
	}
	for i := range budgets {
		if budgets[i].Max > 0 {
			all = append(all, budgetOf(&budgets[i], now))
		}
	}
	return all
}

// budgetOf returns the view of a budget.
func budgetOf(b *ratelimit.BudgetState, now time.Time) limitView {
	left := max(b.Max-b.Spent, 0)
	v := limitView{
		Key: b.Limit, Words: limitText(b.Limit), Used: b.Spent.String(), Max: b.Max.String(), Title: left.String() + " left",
	}
	if b.Spent > 0 {
		share := min(float64(b.Spent)/float64(b.Max), 1)
		v.Parts = bar(1000, []string{"used"}, []int{max(1, int(1000*share))})
	}
	switch {
	case left == 0:
		v.Level, v.Room = "full", moment{b.Until, now}
	case left <= b.Max/5:
		v.Level = "high"
	}
	return v
}

func limitOf(l *ratelimit.LimitState, now time.Time) limitView {
	open := min(l.Open, l.Used)
	v := limitView{
		Key: l.Limit, Words: limitText(l.Limit), Used: number(l.Used), Max: number(l.Max), Room: moment{l.RoomAt, now},
		Level: levelOf(l), Parts: bar(l.Max, []string{"used", "open", "external"}, []int{l.Used - open, open, l.External}),
	}
	said := []string{number(l.Left) + " left", "maximum " + originWords[l.Origin]}
	if open > 0 && l.Limit != "max_in_flight" {
		said = append(said, number(open)+" of the used by open calls")
	}
	if l.External > 0 {
		v.Others = number(l.External)
		said = append(said, v.Others+" used by others of the account")
	}
	v.Title = strings.Join(said, ", ")
	return v
}

func levelOf(l *ratelimit.LimitState) string {
	switch {
	case l.Left <= 0:
		return "full"
	case l.Left <= l.Max/5:
		return "high"
	}
	return ""
}

// bar returns the parts of a bar for amounts out of a maximum. What is beyond it is cut off.
func bar(maximum int, classes []string, amounts []int) (parts []barPart) {
	at := 0
	for i, amount := range amounts {
		end := min(1000, at+perMille(amount, maximum))
		if end > at {
			parts = append(parts, barPart{classes[i], percent(at), percent(end - at)})
		}
		at = end
	}
	return parts
}

// perMille returns the share of an amount, at least 1 of what is not zero.
func perMille(amount, maximum int) int {
	switch {
	case amount <= 0:
		return 0
	case amount >= maximum:
		return 1000
	}
	return max(1, int(float64(amount)/float64(maximum)*1000))
}

func percent(perMille int) string { return fmt.Sprintf("%d.%d%%", perMille/10, perMille%10) }
