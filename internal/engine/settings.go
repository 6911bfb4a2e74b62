package engine

import (
	"cmp"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Sayer is who says something of quotas.
type Sayer uint8

// The sayers.
const (
	Program  Sayer = iota // the program, its account, or a profile: what reports told is forgotten
	Provider              // a report of the provider, or a file
	Hand                  // the program, in a map of the limiter: usage that it has there stays
)

// Say changes what the catalog knows, and has the accounts and those that wait follow.
func (e *Engine) Say(by Sayer, say func(*catalog.Catalog) []catalog.Change, now account.Now) {
	e.change(by, say, now)
	e.Serve(now)
}

// change is Say, and serves nobody.
func (e *Engine) change(by Sayer, say func(*catalog.Catalog) []catalog.Change, now account.Now) {
	now = e.begin(now, 0)
	hadPools := e.Catalog.HasPools()
	for _, c := range say(e.Catalog) {
		e.follow(by, &c, now)
	}
	for _, pool := range e.Catalog.PoolNames() {
		e.need(pool) // a file may have a pool without a quota
	}
	if e.Rename != nil {
		e.rename(now)
	}
	if hadPools || e.Catalog.HasPools() || e.renamesWaiters() {
		e.requeue(now)
	}
}

// renamesWaiters reports whether a model for which somebody waits is counted by another name now.
func (e *Engine) renamesWaiters() bool {
	if e.Rename == nil || e.lines.Waiting() == 0 {
		return false
	}
	renames := func(r Request) bool { return e.Rename(r.Asked) != r.Counted }
	for _, w := range e.lines.Waiters() {
		for _, c := range w.Candidates {
			if c.InLine() && slices.ContainsFunc(OptionOf(c).Requests, renames) {
				return true
			}
		}
	}
	return false
}

// rename moves cooldowns and the usage of others to the names under which their models are counted
// now. Of two cooldowns the one that ends later stays.
func (e *Engine) rename(now account.Now) {
	for _, a := range e.sorted().All {
		if a.IsPool() || a.CoolUntil == 0 && a.Reports == nil {
			continue
		}
		name := e.Rename(a.Name)
		if name == a.Name {
			continue
		}
		to := e.need(name)
		if a.CoolUntil > to.CoolUntil {
			to.Cool(a.CoolUntil, a.CoolCause)
		}
		to.JoinReports(a.Reports)
		a.Cool(0, "")
		a.Report(nil)
		e.drop(a, now)
	}
}

// follow has the accounts follow the quota of one name, which may be a pattern.
func (e *Engine) follow(by Sayer, c *catalog.Change, now account.Now) {
	e.observer.Requoted(*c)
	if e.zone(c.Is.DayZone); c.Has && (c.Name == catalog.Every || c.Name == "") {
		e.need(c.Name) // else what stands for it would stand for other models, too
	}
	if a := e.accounts[c.Name]; a != nil {
		if e.Catalog.IsListed(c.Name) {
			e.places.remove(a)
		} else if a.Listed && by != Hand {
			e.hideEmpty(a, now) // where nothing is to be kept, it needs no place
		}
		e.requote(a)
		if by != Provider {
			a.Found.ForgetTold()
		}
		if a.IsShown() && !e.Catalog.IsListed(c.Name) {
			e.places.use(a)
		}
		if state.IsPool(c.Name) && !e.Catalog.IsPool(c.Name) {
			e.hide(a, false)
		}
		e.drop(a, now)
	}
	if state.IsPool(c.Name) || !strings.Contains(c.Name, catalog.Every) {
		return
	}
	for _, a := range e.accounts {
		if !e.Catalog.IsListed(a.Name) {
			if !a.IsPool() && by != Hand {
				e.hideEmpty(a, now)
			}
			e.requote(a)
		}
		if by != Provider && !a.IsPool() {
			a.Found.ForgetTold()
		}
	}
}

// requeue puts those that wait in line anew.
func (e *Engine) requeue(now account.Now) {
	if e.lines.Waiting() == 0 {
		return
	}
	e.lines.Requeue(lineClasses(e.classes), func(c *lines.Candidate) {
		for i := range OptionOf(c).Requests {
			if r := &OptionOf(c).Requests[i]; e.Rename != nil {
				r.Counted = e.Rename(r.Asked)
			}
		}
	}, now)
}

// SetClasses replaces all classes. Those that wait are put in order anew.
func (e *Engine) SetClasses(classes map[string]state.Class, now account.Now) {
	now = e.begin(now, 0)
	e.setClasses(classes)
	e.lines.Requeue(lineClasses(classes), func(*lines.Candidate) {}, now)
	e.lines.MarkAll()
	e.lines.Serve(now)
}

func (e *Engine) setClasses(classes map[string]state.Class) {
	e.classes, e.reserves = classes, nil
	for name, c := range classes {
		if c.ReservePercent > 0 {
			e.reserves = append(e.reserves, account.Reserve{Class: name, Percent: c.ReservePercent})
		}
	}
	slices.SortFunc(e.reserves, func(a, b account.Reserve) int { return cmp.Compare(a.Class, b.Class) })
}

// KnownClass returns the name of a class if it is one of Classes; else nothing.
func (e *Engine) KnownClass(name string) string {
	if _, known := e.classes[name]; known {
		return name
	}
	return ""
}

// Classes returns the classes in force, which must not be changed.
func (e *Engine) Classes() map[string]state.Class { return e.classes }

func lineClasses(classes map[string]state.Class) map[string]lines.Class {
	if len(classes) == 0 {
		return nil
	}
	all := make(map[string]lines.Class, len(classes))
	for name, c := range classes {
		all[name] = lines.Class{
			Share:    lines.Share{Name: name, Weight: c.Weight, Ahead: c.Ahead},
			MaxQueue: c.MaxQueue, Reserves: c.ReservePercent > 0,
		}
	}
	return all
}

// SetMaxModels bounds the models that have usage without a quota of their own.
func (e *Engine) SetMaxModels(most int) { e.places.most = cmp.Or(most, DefaultMaxModels) }
