package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// report writes the final table.
func report(out io.Writer, took time.Duration, c counts, quota ratelimit.ModelStats) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(out)
	row("calls", "%s: %s answered, %s failed, %s cut off", group(c.calls), group(c.answered), group(c.failed), group(c.cut))
	row("429s", "%s", group(c.refused))
	row("tokens", "%s charged by estimate, %s used: %s prompt, %s output",
		group(c.tokens), group(c.reported.PromptTokens+c.reported.CompletionTokens),
		group(c.reported.PromptTokens), group(c.reported.CompletionTokens))
	row("time", "%.1fs, of which %.1fs waiting for the quota", took.Seconds(), c.waited.Seconds())
	row("waits", "%s, the longest %.1fs", count(c.waits, "call"), c.longest.Seconds())
	row("fullest minute", "%s requests, %s tokens", part(c.peakRPM, quota.MaxRPM), part(c.peakTPM, quota.MaxTPM))
	if c.before.RPM > 0 {
		row("carried over", "%s requests, %s tokens of an earlier run", group(c.before.RPM), group(c.before.TPM))
	}
	windows := windowsIn(took)
	row("quota used", "%s requests, %s tokens",
		part(c.calls, quota.MaxRPM*windows), part(c.tokens, quota.MaxTPM*windows))
	row("", "(the most this time allows: a full minute's share at the start, and again each %.2fs)", (time.Minute + margin).Seconds())
	table.Flush()
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return group(n) + " " + thing + "s"
}

// windowsIn returns how often the whole quota could be used in a time: once at its start,
// and again whenever that has left the window.
func windowsIn(took time.Duration) int {
	return 1 + int(took/(time.Minute+margin))
}

// part formats the used part of a limit, also in per cent.
func part(used, limit int) string {
	if limit == 0 {
		return group(used)
	}
	return fmt.Sprintf("%s of %s (%d%%)", group(used), group(limit), 100*used/limit)
}

// group writes a number with commas between the thousands.
func group(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
