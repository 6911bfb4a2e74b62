package main

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
)

// progressLine is the state of a run, in 80 columns. before is how many of the
// total were answered in earlier runs, and d is about the call that comes next.
func progressLine(elapsed time.Duration, before, total int, c counts, d ratelimit.Decision) string {
	wait := "-"
	if c.waiting > 0 {
		wait = fmt.Sprintf("%.1fs", d.RetryAfter.Seconds())
	}
	return fmt.Sprintf("%3.0fs  done %d/%d  RPM %s  TPM %s  next wait %s  429s %d",
		elapsed.Seconds(), before+c.answered, total,
		usedText(d.Stats.RPM, d.Stats.MaxRPM), usedText(d.Stats.TPM, d.Stats.MaxTPM), wait, c.refused)
}

// usedText is how much of a limit is used.
func usedText(used, limit int) string {
	if limit == 0 {
		return demo.Group(used)
	}
	return demo.Group(used) + "/" + demo.Group(limit)
}
