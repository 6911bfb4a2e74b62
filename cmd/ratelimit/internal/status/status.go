// Package status tells what is used of a shared quota, and by which process, without a part in it.
package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// Report is what is used of a shared quota at one moment. It is what --json prints.
type Report struct {
	At        time.Time                `json:"at"`        // by the clock of the store
	Models    []ratelimit.Explanation  `json:"models"`    // sorted by name
	Pools     []ratelimit.PoolState    `json:"pools"`     // of these models, sorted by name
	Processes []ratelimit.ProcessState `json:"processes"` // all, the eldest first, with their part in these models
	Warnings  []string                 `json:"warnings"`  // for people
}

// Read returns a report on a model, or on all of them for "". The error says in words what cannot
// be read, or that the model is not known.
func Read(ctx context.Context, cfg ratelimit.Config, model string) (*Report, error) {
	var told warnings
	cfg.OnError = told.add
	var models []string
	if model != "" {
		models = []string{model}
	}
	is, err := ratelimit.Inspect(ctx, cfg, models...)
	if missing := (*fs.PathError)(nil); errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no shared quota at %s: no program has used it yet, or it is elsewhere (--db, --redis)", missing.Path)
	}
	if err != nil {
		return nil, err
	}
	r := &Report{
		At: is.At, Models: is.Models, Processes: is.Processes,
		Pools: is.Pools, Warnings: append(told.list(), silent(is)...),
	}
	if model != "" {
		if e := &is.Models[0]; !isKnown(e) {
			return nil, unknown(ctx, cfg, model)
		}
		r.only(&is.Models[0])
	}
	r.fill()
	return r, nil
}

// only leaves out what has nothing to do with a model.
func (r *Report) only(e *ratelimit.Explanation) {
	r.Pools = e.Pools
	for i := range r.Processes {
		for _, part := range []*map[string]int{&r.Processes[i].InFlight, &r.Processes[i].Tokens, &r.Processes[i].Waiting} {
			maps.DeleteFunc(*part, func(model string, _ int) bool { return model != e.Counted })
		}
	}
}

// fill makes empty lists of those that are nil, so that JSON has no null.
func (r *Report) fill() {
	r.Models, r.Pools = listOf(r.Models), listOf(r.Pools)
	r.Processes, r.Warnings = listOf(r.Processes), listOf(r.Warnings)
}

func listOf[T any](list []T) []T { return append(make([]T, 0, len(list)), list...) }

// isKnown reports whether a model has a quota, a pool or usage.
func isKnown(e *ratelimit.Explanation) bool {
	s := &e.Next.Stats
	return e.Quota != "" || len(e.Pools) > 0 || len(e.Budgets) > 0 || e.InFlight+e.Waiting > 0 ||
		s.RPM+s.TPM+s.RPD+s.TPD > 0 || !e.CooldownUntil.IsZero()
}

// mostNamed is how many models an error names.
const mostNamed = 10

// unknown is the error of a model that is not known.
func unknown(ctx context.Context, cfg ratelimit.Config, model string) error {
	is, err := ratelimit.Inspect(ctx, cfg)
	if err != nil {
		return err
	}
	var names []string
	for i := range is.Models[:min(len(is.Models), mostNamed)] {
		names = append(names, is.Models[i].Model)
	}
	switch {
	case len(names) == 0:
		names = append(names, "no model is")
	case len(is.Models) > mostNamed:
		names = append(names, fmt.Sprintf("and %d others are", len(is.Models)-mostNamed))
	default:
		names = append([]string{"known are"}, strings.Join(names, ", "))
		return fmt.Errorf("model %q is not known: %s", model, strings.Join(names, " "))
	}
	return fmt.Errorf("model %q is not known: %s", model, strings.Join(names, ", "))
}

// longSilence is how long a process with open calls is not silent that lives, unless its lease is
// longer than the usual one.
const longSilence = time.Minute

// silent returns warnings of processes that have open calls and are silent.
func silent(is *ratelimit.Inspection) (all []string) {
	for i := range is.Processes {
		p := &is.Processes[i]
		if open, quiet := total(p.InFlight), is.At.Sub(p.HeardAt); open > 0 && quiet > longSilence {
			all = append(all, fmt.Sprintf("process %s has %d open calls and was not heard for %s: "+
				"if it is dead, they stay open until another process asks for something", name(p), open, age(quiet)))
		}
	}
	return all
}

func total(of map[string]int) (n int) {
	for _, model := range slices.Sorted(maps.Keys(of)) {
		n += of[model]
	}
	return n
}

// warnings are what a limiter tells beside its answers.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) add(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, err.Error())
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}
