package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/settings"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// UnknownPolicy says what happens to a call of a model for which no quota stands: neither one of
// its own, nor a pattern, nor "*". A zero quota is one. The zero value is UnknownAllow.
type UnknownPolicy int

// The policies.
const (
	UnknownAllow UnknownPolicy = iota // the call is allowed, as the model is not limited
	UnknownDeny                       // it is denied for good; so is a call that nothing counts: see EventUncounted
)

var unknownPolicies = settings.PolicyWords{Type: "UnknownPolicy", What: "unknown policy", Words: []string{"allow", "deny"}}

// String returns "allow" or "deny".
func (p UnknownPolicy) String() string { return unknownPolicies.String(int(p)) }

// MarshalText returns what String does. It fails for a value that is neither policy.
func (p UnknownPolicy) MarshalText() ([]byte, error) { return unknownPolicies.Marshal(int(p)) }

// UnmarshalText reads "allow" or "deny". It fails for any other text, and changes nothing then.
func (p *UnknownPolicy) UnmarshalText(text []byte) error {
	return unknownPolicies.Unmarshal((*int)(p), text)
}

// UnknownModelError tells Config.OnError that a model was called for which no quota stands: once a
// day for each, and for at most Config.MaxModels models a day.
type UnknownModelError struct {
	// Model is the model as the program called it.
	Model string
	// Nearest is the name in Quotas of which it is a version (see Config.MatchVersions), else the
	// one there or in Config.Aliases that is most like it, else that of NoFigure's profile; empty
	// where none is.
	Nearest string
	// NoFigure is the provider whose profile was loaded and says that no current figure of the
	// model is known; empty where none says so.
	NoFigure Provider
}

// Error names the model, the provider that has no current figure of it, and the name nearest to it.
func (e *UnknownModelError) Error() string {
	said := fmt.Sprintf("no quota for the model %q", e.Model)
	if e.NoFigure != "" {
		said += fmt.Sprintf(": no current figure of the provider %q is known", e.NoFigure)
	}
	return said + nearestHint(e.Nearest)
}

func nearestHint(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; the nearest known name is %q", name)
}

// hintLocked has a verdict on an unknown model name the nearest one, where its requests did not: a
// verdict of the log does not, because each process has aliases of its own, nor that on a waiter
// whose model has lost its quota.
func (rl *RateLimiter) hintLocked(v *verdict.Verdict, items []verdict.Item) {
	if v.Code == verdict.UnknownModel && !v.Allowed && items[v.Item].Nearest == "" {
		v.Reason += nearestHint(rl.engine.Catalog.Nearest(items[v.Item].Asked, &rl.naming))
	}
}

// meetRLocked notes a call of a model: whether no quota stands for it, or one of a profile that is
// old. It returns the name nearest to an unknown one, where somebody is told of that.
func (rl *RateLimiter) meetRLocked(t *engine.Target) (nearest string, unknown bool) {
	if !t.Account.IsShown() {
		rl.checkAgeRLocked(t.Counted)
	}
	switch {
	case !t.Account.Has(account.Unknown) || rl.engine.Catalog.NamesModel(t.Counted, t.Asked):
		return "", false
	case rl.reporter == nil && rl.teller == nil && rl.unknown == UnknownAllow:
		return "", true
	}
	model, now := t.Asked, rl.clock.At(rl.clock.Now())
	find := func() string { return rl.engine.Catalog.Nearest(model, &rl.naming) }
	nearest, report, ok := rl.unknownMet.Meet(model, now, rl.quotaVersion, rl.mostModels(), find)
	if report {
		err := &UnknownModelError{Model: strings.Clone(model), Nearest: nearest}
		if provider := rl.loaded.NoFigure(t.Counted, model, rl.engine.Catalog); provider != "" {
			err.NoFigure, err.Nearest = Provider(provider), cmp.Or(nearest, rl.loaded.NearestOf(provider, model))
		}
		rl.reporter.ReportAs(*err, err)
		if e := rl.teller.eventRLocked(Event{Kind: EventUnknownModel, Nearest: nearest}); e != nil {
			rl.teller.nameRLocked(e, err.Model)
			rl.teller.postRLocked(e)
		}
	}
	if !ok && rl.unknown == UnknownDeny {
		nearest = find()
	}
	return nearest, true
}

// ObserveUncounted reports a call of a model that nothing counts, as an llmhttp.Transport does:
// each to Config.Events, and the first of each path to Config.OnError. asError makes the error that
// says why, of the path as it is told: 256 bytes of 100 paths, and "others" for further ones. path
// has no query, model may be empty. With UnknownDeny it returns a *LimitError that matches
// ErrNeverFits and that error: the call must not be sent.
func (rl *RateLimiter) ObserveUncounted(ctx context.Context, path, model string, asError func(path, model string) error) error {
	path, first := rl.uncounted.Meet(path)
	model = notice.CutName(model)
	why := asError(path, model)
	if first {
		rl.reporter.ReportAs("uncounted "+path, why)
	}
	if rl.teller != nil {
		rl.teller.tellOf(callerOf(ctx).ctx, model, Event{Kind: EventUncounted, Path: path, Err: why})
	}
	if rl.unknown != UnknownDeny {
		return nil
	}
	d := Decision{Code: DecisionUnknownModel, Never: true, Model: model, Reason: why.Error()}
	return &LimitError{Model: model, Decision: d, Err: &notice.UncountedRefusal{Why: why, Never: ErrNeverFits}, op: "send"}
}
