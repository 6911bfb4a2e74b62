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

func limitOf(l *ratelimit.LimitState, e *ratelimit.Explanation, now time.Time) limitView {
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
