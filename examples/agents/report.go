package main

import (
	"fmt"
	"io"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
)

// report writes the final table. The log is nil where the server is another's.
func report(out io.Writer, took time.Duration, c counts, quota ratelimit.ModelStats, log *logged) {
	t := demo.NewTable(out)
	fmt.Fprintln(out)
	t.Row("calls", "%s: %s answered, %s failed, %s cut off",
		demo.Group(c.calls), demo.Group(c.answered), demo.Group(c.failed), demo.Group(c.cut))
	t.Row("429s", "%s", demo.Group(c.refused))
	t.Row("tokens", "%s charged by estimate, %s used: %s prompt, %s output",
		demo.Group(c.tokens), demo.Group(c.reported.PromptTokens+c.reported.CompletionTokens),
		demo.Group(c.reported.PromptTokens), demo.Group(c.reported.CompletionTokens))
	t.Row("", "(the estimate stays: like OpenAI, the server charges max_tokens and refunds nothing for a")
	t.Row("", "shorter answer; ours adds an upper bound of the prompt, so it is never below the server's)")
	t.Row("time", "%.1fs, of which %.1fs waiting for the quota", took.Seconds(), c.waited.Seconds())
	t.Row("waits", "%s, the longest %.1fs", demo.Count(c.waits, "call"), c.longest.Seconds())
	t.Row("fullest minute", "%s requests, %s tokens", demo.Share(c.peakRPM, quota.MaxRPM), demo.Share(c.peakTPM, quota.MaxTPM))
	if c.before.RPM > 0 {
		t.Row("carried over", "%s requests, %s tokens of an earlier run", demo.Group(c.before.RPM), demo.Group(c.before.TPM))
	}
	windows := windowsIn(took)
	t.Row("quota used", "%s requests, %s tokens",
		demo.Share(c.calls, quota.MaxRPM*windows), demo.Share(c.tokens, quota.MaxTPM*windows))
	t.Row("", "(of all that this time allows: a minute's share at the start, and again each %.2fs; a last", (time.Minute + margin).Seconds())
	t.Row("", "share is rarely used up, because the prompts run out)")
	if log != nil {
		t.Row("server's log", "%s, %s of them refused, since the last whole run; in this run %s, %s tokens",
			demo.Count(log.calls, "call"), demo.Group(log.refused), demo.Count(log.now, "call"), demo.Group(log.nowTokens))
	}
	t.Flush()
}

// verdict compares the agents' counts with the server's log and says what to make of it. It
// returns an error if the server refused calls, or counts differently.
func (s *session) verdict(out io.Writer, c counts, log *logged) error {
	tell := func(format string, args ...any) { fmt.Fprintf(out, "verdict: "+format+"\n", args...) }
	switch {
	case s.cfg.unsafe && c.refused > 0:
		tell("a check and a record are two steps: %s came too many. Try it without -unsafe", demo.Count(c.refused, "call"))
	case s.cfg.unsafe:
		tell("no call was refused this time, by luck")
	case log == nil && c.refused > 0:
		tell("%s refused: look at the limits of your account, and at who else uses it", demo.Count(c.refused, "call"))
	case log == nil:
		tell("no call was refused")
	case log.refused > 0:
		tell("FAIL")
		return fmt.Errorf("the server refused %s", demo.Count(log.refused, "call"))
	case log.now > c.calls || log.now < c.calls-c.cut || log.nowTokens > c.tokens:
		tell("FAIL")
		return fmt.Errorf("the server has logged %s and %s tokens, we %s and %s", demo.Count(log.now, "call"),
			demo.Group(log.nowTokens), demo.Count(c.calls, "call"), demo.Group(c.tokens))
	default:
		tell("PASS: the server got every call that we counted, no other, and refused none of them\n         (its log: %s)", s.server.Journal())
	}
	return nil
}

// windowsIn returns how often the whole quota could be used in a time: once at its start,
// and again whenever that has left the window.
func windowsIn(took time.Duration) int {
	return 1 + int(took/(time.Minute+margin))
}
