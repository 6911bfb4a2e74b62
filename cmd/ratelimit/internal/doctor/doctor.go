// Package doctor looks for what keeps a shared quota from doing what its operator believes. It only
// reads.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/accountlimits"
)

// Finding is something that is not as it should be.
type Finding struct {
	Check string `json:"check"` // what was looked at: one of the constants
	About string `json:"about"` // a file, a model, a provider or a server
	Text  string `json:"text"`  // what is wrong
	Do    string `json:"do"`    // what helps
}

// What is looked at.
const (
	checkDisk     = "disk"
	checkLocks    = "locks"
	checkFile     = "file"
	checkClock    = "clock"
	checkModels   = "models"
	checkProfiles = "profiles"
	checkPrices   = "prices"
	checkLimits   = "limits"
)

// Report is what was found. It is what --json prints.
type Report struct {
	At       time.Time `json:"at"`
	Findings []Finding `json:"findings"`
	Notes    []string  `json:"notes"` // what could not be told, or is no fault
}

// Settings say what is looked at.
type Settings struct {
	Config ratelimit.Config // where the quota is
	File   string           // the file of the quota; empty for a server
	Now    time.Time
	// Sources are where the limits of accounts are read, by the names of the providers; nil asks
	// nobody.
	Sources map[string]accountlimits.Source
	ClockOf string // the address of a server whose Date header is asked for; empty asks nobody
}

// examination is a Report under way.
type examination struct {
	Settings
	Report
	is *ratelimit.Inspection
}

// Examine looks at a shared quota, and returns what it found.
func Examine(ctx context.Context, s Settings) *Report {
	e := &examination{Settings: s, Report: Report{At: s.Now.UTC(), Findings: []Finding{}, Notes: []string{}}}
	usable := e.File == "" || e.disk()
	e.synchronised()
	e.date(ctx)
	if usable && e.look(ctx) {
		if e.File == "" {
			e.compare("the server of the quota", e.is.At, time.Since(e.Now))
		} else {
			e.file()
		}
		e.models()
		e.profiles()
	}
	e.limits(ctx)
	return &e.Report
}

func (e *examination) find(check, about, do, format string, arguments ...any) {
	e.Findings = append(e.Findings, Finding{check, about, fmt.Sprintf(format, arguments...), do})
}

func (e *examination) note(format string, arguments ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, arguments...))
}

// look reads the quota, and reports whether there is one.
func (e *examination) look(ctx context.Context) bool {
	var mu sync.Mutex
	var told []error
	cfg := e.Config
	cfg.OnError = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}
	is, err := ratelimit.Inspect(ctx, cfg)
	where := e.File
	if where == "" {
		where = "redis"
	}
	missing := (*fs.PathError)(nil)
	switch {
	case errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist):
		e.note("there is no shared quota at %s yet: the first program that uses it makes it", missing.Path)
	case errors.Is(err, ratelimit.ErrCorruptState):
		e.find(checkFile, where, "update this program if a newer version wrote it; else move it away, and the next program begins anew", "%v", err)
	case err != nil:
		e.find(checkFile, where, "start a program of this version on it, such as ratelimit proxy, or name another with --db or --redis", "%v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, err := range told {
		e.told(err)
	}
	e.is = is
	return err == nil
}

// told takes up what the library says of its own.
func (e *examination) told(err error) {
	stale := (*ratelimit.StalePriceError)(nil)
	if !errors.As(err, &stale) {
		e.note("%v", err)
		return
	}
	e.find(checkPrices, stale.Model, "look up what you pay, and say it under prices: in the file of --config, or update this program",
		"its spend is limited by the price of %s that was read on %s, %d days ago",
		stale.Provider, stale.ReadOn.Format(time.DateOnly), days(e.Now.Sub(stale.ReadOn)))
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }

// Write writes the report for people: a line for each finding, and for each note.
func (r *Report) Write(to io.Writer) error {
	for _, f := range r.Findings {
		if _, err := fmt.Fprintf(to, "%s: %s: %s: %s\n", f.Check, f.About, f.Text, f.Do); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		if _, err := fmt.Fprintf(to, "note: %s\n", note); err != nil {
			return err
		}
	}
	if len(r.Findings) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(to, "nothing was found")
	return err
}
