package main

import (
	"errors"
	"fmt"
	"io"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// report writes the table and the verdict, which it returns as an error if it is bad.
func report(out io.Writer, tallies []tally, server fakeprovider.Stats) error {
	fmt.Fprintln(out)
	table := demo.NewTable(out)
	var errs []error
	sum := 0
	for _, t := range tallies {
		switch {
		case t.missing != "":
			table.Row(t.name, "%s", t.missing)
		case t.Error != "":
			table.Row(t.name, "%s, and then an error", demo.Count(t.Calls, "call"))
			errs = append(errs, fmt.Errorf("%s: %s", t.name, t.Error))
		default:
			table.Row(t.name, "%s, then told to come back in %d s", demo.Count(t.Calls, "call"), t.RetryAfter)
			if t.Calls == 0 || t.RetryAfter == 0 {
				errs = append(errs, fmt.Errorf("%s made %s, and was told to wait for %d s", t.name, demo.Count(t.Calls, "call"), t.RetryAfter))
			}
		}
		sum += t.Calls
	}
	admitted := server.Requests - server.Refused
	table.Row("server", "%s requests of the minute, at most %s at a time, %d refused with 429",
		demo.Share(admitted, quota.MaxRPM), demo.Share(server.Most, quota.MaxInFlight), server.Refused)
	if server.Refused > 0 {
		errs = append(errs, fmt.Errorf("the server refused %s", demo.Count(server.Refused, "call")))
	}
	// A process holds room for its next call, so when all end, a call or two may be left.
	if admitted > quota.MaxRPM || admitted < quota.MaxRPM-3 {
		errs = append(errs, fmt.Errorf("the minute has room for %d calls, and %d came", quota.MaxRPM, admitted))
	}
	if admitted != sum {
		errs = append(errs, fmt.Errorf("the server counts %d calls, and the programs %d", admitted, sum))
	}
	wrong := errors.Join(errs...)
	table.Verdict("the minute is used up, and no call was refused by the server", wrong)
	table.Flush()
	return wrong
}
