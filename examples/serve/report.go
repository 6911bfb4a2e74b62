package main

import (
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// report writes the table and the verdict, which it returns as an error if it is bad.
func (s *show) report() error {
	t := demo.NewTable(s.out)
	fmt.Fprintln(s.out)
	var wrong []error
	answered := 0
	for _, tenant := range s.tenants {
		c := tenant.counts()
		answered += c.answered
		median, longest := tenant.times()
		t.Row(tenant.name, "%s: %d answered (%d streams), %d refused with 429 (%d for tokens), %d failed",
			demo.Count(c.sent, "call"), c.answered, c.streamed, c.refused, c.byTokens, c.failed)
		t.Row("", "answers took %v, the longest %v", median.Round(time.Millisecond), longest.Round(time.Millisecond))
		wrong = append(wrong, s.check(tenant))
	}
	a := s.audit()
	t.Row("provider", "%s, %s tokens; it refused %d with 429", demo.Count(a.calls, "call"), demo.Group(a.tokens), a.refused)
	quota, more := s.bound()
	t.Row("", "the flood used %s of them, at most %s are its quota", demo.Group(a.flood), demo.Group(quota))
	if more > 0 {
		t.Row("", "and at most %s more in calls that the other process did not know of yet", demo.Group(more))
	}
	if a.refused > 0 {
		wrong = append(wrong, fmt.Errorf("the provider refused %s", demo.Count(a.refused, "call")))
	}
	if a.calls != answered {
		wrong = append(wrong, fmt.Errorf("the tenants got %d answers, the provider gave %d", answered, a.calls))
	}
	if a.flood > quota+more {
		wrong = append(wrong, fmt.Errorf("the flood used %s tokens, more than %s", demo.Group(a.flood), demo.Group(quota+more)))
	}
	err := errors.Join(wrong...)
	flood := "stayed in its quota"
	if a.flood > quota {
		flood = "exceeded its quota within the bound"
	}
	t.Verdict("the quiet tenants lost nothing, the flood "+flood+", the provider refused none", err)
	t.Flush()
	return err
}

// check returns an error if a quiet tenant has lost a call, or the other one was not bounded.
func (s *show) check(t *tenant) error {
	c := t.counts()
	switch {
	case c.failed > 0:
		return fmt.Errorf("%s: %d calls failed: %v", t.name, c.failed, t.wrong)
	case c.answered == 0:
		return fmt.Errorf("%s got no answer", t.name)
	case t.quiet() && c.refused > 0:
		return fmt.Errorf("%s was refused %d times", t.name, c.refused)
	case !t.quiet() && c.refused == 0:
		return fmt.Errorf("%s was never refused", t.name)
	}
	return nil
}

// floodCall is more tokens than a call of the flood can use.
const floodCall = 1200

// bound returns how many tokens the flood may use: its quota for each minute of the clock that the
// run touches, and more with two processes, which do not know of each other's calls until these
// end.
func (s *show) bound() (quota, more int) {
	minutes := int(s.began.Add(s.cfg.length).Unix()/60-s.began.Unix()/60) + 1
	if len(s.gateways) > 1 {
		more = minutes * s.tenants[0].callers * floodCall
	}
	return tenantTPM * minutes, more
}

// audit is what the provider has counted.
type audit struct{ calls, refused, tokens, flood int }

func (s *show) audit() (a audit) {
	for _, arrival := range s.provider.Arrivals(model) {
		if arrival.Refused {
			a.refused++
			continue
		}
		a.calls++
		tokens := arrival.Charge[fakeprovider.TPM]
		a.tokens += tokens
		if tokens > 2*maxAnswer { // only the prompts of the flood are that long
			a.flood += tokens
		}
	}
	return a
}
