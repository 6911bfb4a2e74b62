package sharedlogtest

import (
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/cooldown"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

func (e *exercise) days() {
	a, _ := e.open(1)
	now := time.Now().UnixNano()
	day := func(n int64, model string, count int64) *sharedlog.Event {
		event := use(1, n)
		event.Model, event.Day, event.HasDay = model, state.DayUsage{Start: now, Count: count, Tokens: 10 * count}, true
		return event
	}
	wants := func(when string, want map[string]int64) {
		e.t.Helper()
		img := e.image(a)
		for _, model := range []string{"a", "b", "c"} {
			if got := img.Days[model].Count; got != want[model] {
				e.t.Errorf("%s: the day of %s has %d requests, want %d", when, model, got, want[model])
			}
		}
	}
	events := []*sharedlog.Event{
		day(1, "a", 1), day(2, "b", 1), day(3, "a", 2), {Process: 1, N: 4, Kind: sharedlog.Reset, Model: "b"},
		day(5, "c", 7), day(6, "b", 3),
	}
	e.write(a, 0, events...)
	wants("after the events", map[string]int64{"a": 2, "b": 3, "c": 7})
	// They go in two pieces; the first of the rest is in force still.
	for i, event := range events {
		event.Seq = int64(i) + 1
	}
	e.commit(e.begin(a, 6), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 7)}, Passed: events[:2], Drops: [][2]int64{{1, 2}}})
	wants("after two of them have gone", map[string]int64{"a": 2, "b": 3, "c": 7})
	e.commit(e.begin(a, 7), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 8)}, Passed: events[2:], Drops: [][2]int64{{4, 6}}})
	wants("after all but one of them have gone", map[string]int64{"a": 2, "b": 3, "c": 7})
	e.write(a, 8, &sharedlog.Event{Process: 1, N: 9, Kind: sharedlog.Reset}, day(10, "c", 1))
	wants("after all was forgotten", map[string]int64{"c": 1})
}

func (e *exercise) tables() {
	a, _ := e.open(1)
	until := time.Now().Add(time.Hour).UnixNano()
	learned := state.Answers{Count: 40, Prompts: 39, Correction: 1234, Deviation: 56, Peak: 5, LastPeak: 6, Generation: 8, Errors: state.Row{7, 0, 9}}
	first, last := state.Quota{MaxRPM: 1}, state.Quota{MaxRPM: 2, MaxTPD: 3, DayZone: "Asia/Tokyo", Burst: time.Second}
	e.write(a, 0,
		&sharedlog.Event{Process: 1, N: 1, Kind: sharedlog.Quota, Model: "m", Text: sharedlog.QuotaText(first)},
		&sharedlog.Event{Process: 1, N: 2, Kind: sharedlog.Quota, Model: "m", Text: sharedlog.QuotaText(last)},
		&sharedlog.Event{Process: 1, N: 3, Kind: sharedlog.Cooldown, Model: "m", Wall: until, Text: "daily_quota"},
		&sharedlog.Event{Process: 1, N: 4, Kind: sharedlog.Cooldown, Model: "m", Wall: until - 1, Text: "overloaded"},
		&sharedlog.Event{Process: 1, N: 5, Kind: sharedlog.Cooldown, Model: "m", Wall: until, Text: "rate_limited"},
		&sharedlog.Event{Process: 1, N: 6, Kind: sharedlog.Cooldown, Model: "other", Wall: until - 1, Text: "overloaded"},
		&sharedlog.Event{Process: 1, N: 7, Kind: sharedlog.Cooldown, Model: "other", Wall: until},
		&sharedlog.Event{Process: 1, N: 8, Kind: sharedlog.Answers, Model: "m", Text: state.AnswersText(state.Answers{Count: 1})},
		&sharedlog.Event{Process: 1, N: 9, Kind: sharedlog.Answers, Model: "m", Text: state.AnswersText(learned)},
	)
	img := e.image(a)
	wantsLearned := func(img *sharedlog.Image) {
		e.t.Helper()
		if got := img.Answers["m"]; len(img.Answers) != 1 || state.AnswersText(got) != state.AnswersText(learned) {
			e.t.Errorf("what was learned is %+v", img.Answers)
		}
	}
	wantsLearned(img)
	if img.Quotas["m"] != last || len(img.Quotas) != 1 {
		e.t.Errorf("the quotas are %+v", img.Quotas)
	}
	// Of two the later stays, with its cause, and of two that end at the same time the first.
	if !cools(img, "m", until, "daily_quota") || !cools(img, "other", until, "caller") {
		e.t.Errorf("the cooldowns are %+v", img.Cooldowns)
	}
	e.write(a, 9, &sharedlog.Event{Process: 1, N: 10, Kind: sharedlog.Reset, Model: "m"})
	if img := e.image(a); len(img.Cooldowns) != 1 || img.Quotas["m"] != last {
		e.t.Errorf("after a reset there are %+v and %+v", img.Cooldowns, img.Quotas)
	}
	e.write(a, 10, &sharedlog.Event{Process: 1, N: 11, Kind: sharedlog.Reset})
	wantsLearned(e.image(a))
	if img := e.image(a); len(img.Cooldowns) != 0 || len(img.Quotas) != 1 {
		e.t.Errorf("after a reset of all there are %+v and %+v", img.Cooldowns, img.Quotas)
	}
}

// origins: each event changes what one origin says. Where nobody says anything, there is no quota.
func (e *exercise) origins() {
	a, _ := e.open(1)
	program, account := state.Quota{MaxRPM: 1}, state.Quota{MaxRPM: 9, MaxTPM: 90}
	n := int64(0)
	for _, row := range []struct {
		what   string
		saying sharedlog.Saying
		want   state.Quota // zero for none
	}{
		{"the program", sharedlog.Saying{Holds: program, Is: program}, program},
		{"the account", sharedlog.Saying{Origin: state.Account, Is: account}, state.Quota{MaxRPM: 1, MaxTPM: 90}},
		{"the program no more", sharedlog.Saying{Gone: true}, account},
		{"the account no more", sharedlog.Saying{Origin: state.Account, Gone: true}, state.Quota{}},
		{"nor again", sharedlog.Saying{Origin: state.Account, Gone: true}, state.Quota{}},
		{"the account first", sharedlog.Saying{Origin: state.Account, Is: account}, account},
		{"and the program", sharedlog.Saying{Holds: program, Is: program}, state.Quota{MaxRPM: 1, MaxTPM: 90}},
	} {
		e.write(a, n, &sharedlog.Event{Process: 1, N: n + 1, Kind: sharedlog.Quota, Model: "m", Text: row.saying.Text()})
		n++
		img := e.image(a)
		if got, has := img.Quotas["m"]; got != row.want || has != (row.want != state.Quota{}) {
			e.t.Errorf("%s: %+v, %t, want %+v", row.what, got, has, row.want)
		} else if has && provenance.Of(provenance.Shared(got, img.Said["m"])) != row.want {
			e.t.Errorf("%s: said %+v", row.what, img.Said["m"])
		}
	}
}

// found: the last event of each model counts, for whoever comes later too. No reset forgets it, nor
// that the events are gone.
func (e *exercise) found() {
	a, _ := e.open(1)
	first := state.Found{Rate: state.Search{Level: 5}, At: 1}
	last := state.Found{
		Rate:  state.Search{Level: state.MostLevel, Knee: 2, Step: 3, Raised: 4, Streak: 5, Lowered: state.MostLowered},
		Slots: state.Search{Level: 7, Knee: 8, Step: 9, Raised: 10, Streak: state.MostStreak, Lowered: 12},
		At:    time.Now().UnixNano(), Told: true,
	}
	event := func(n int64, model string, f state.Found) *sharedlog.Event {
		return &sharedlog.Event{Process: 1, N: n, Kind: sharedlog.Found, Model: model, Text: state.FoundText(f)}
	}
	wants := func(when string, want map[string]state.Found) {
		e.t.Helper()
		if img := e.image(a); !maps.Equal(img.Found, want) {
			e.t.Errorf("%s: %+v, want %+v", when, img.Found, want)
		}
	}
	wants("at the beginning", map[string]state.Found{})
	e.write(a, 0, event(1, "m", last), event(2, "m", first), event(3, "\x00odd", first), event(4, "m", last))
	both := map[string]state.Found{"m": last, "\x00odd": first}
	wants("after the events", both)
	e.write(a, 4, &sharedlog.Event{Process: 1, N: 5, Kind: sharedlog.Reset, Model: "m"}, &sharedlog.Event{Process: 1, N: 6, Kind: sharedlog.Reset})
	wants("after resets", both)
	passed := []*sharedlog.Event{{Seq: 1, Kind: sharedlog.Found}, {Seq: 5, Kind: sharedlog.Reset, Model: "m"}}
	e.commit(e.begin(a, 6), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 7)}, Passed: passed, Drops: [][2]int64{{1, 5}}})
	wants("after the events have gone", both)
	b, img := e.open(2)
	if !maps.Equal(img.Found, both) {
		e.t.Errorf("another is told %+v", img.Found)
	}
	e.write(b, 7, &sharedlog.Event{Process: 2, N: 1, Kind: sharedlog.Found, Model: "m", Text: state.FoundText(first)})
	wants("after another's event", map[string]state.Found{"m": first, "\x00odd": first})
	step := e.begin(a, 7)
	defer step.Rollback()
	if news := step.News(); len(news.Events) != 1 || news.Events[0].Text != state.FoundText(first) {
		e.t.Errorf("the news are %+v", news)
	}
}

// cools reports whether a cooldown is in the image. A log need not store the caller's cause.
func cools(img *sharedlog.Image, model string, until int64, cause string) bool {
	c := img.Cooldowns[model]
	c.Cause = cooldown.Cause(c.Cause)
	return c.Same(state.Cooldown{Until: time.Unix(0, until), Cause: cause})
}

func (e *exercise) names() {
	a, _ := e.open(1)
	until := time.Now().Add(time.Hour).UnixNano()
	e.write(a, 0,
		&sharedlog.Event{Process: 1, N: 1, Kind: sharedlog.Cooldown, Model: "m-2024-08-06", Wall: until},
		&sharedlog.Event{Process: 1, N: 2, Kind: sharedlog.Cooldown, Model: "other", Wall: until},
	)
	e.commit(e.begin(a, 2), &sharedlog.Batch{
		Events: []*sharedlog.Event{{Process: 1, N: 3, Kind: sharedlog.Reset, Model: "m"}},
		NameOf: func(model string) string {
			if model == "m-2024-08-06" {
				return "m"
			}
			return model
		},
	})
	if img := e.image(a); len(img.Cooldowns) != 1 || !cools(img, "other", until, "caller") {
		e.t.Errorf("the cooldowns are %+v", img.Cooldowns)
	}
}

func (e *exercise) sweep() {
	a, _ := e.open(1)
	now := time.Now()
	ages := map[string]time.Duration{"new": time.Hour, "old": 30 * 24 * time.Hour}
	var events []*sharedlog.Event
	for _, model := range []string{"new", "old"} {
		at := now.Add(-ages[model]).UnixNano()
		event := use(1, int64(len(events)+1))
		event.Model, event.Day, event.HasDay = model, state.DayUsage{Start: at, Count: 1}, true
		events = append(events, event)
		events = append(events, &sharedlog.Event{Process: 1, N: int64(len(events) + 1), Kind: sharedlog.Cooldown, Model: model, Wall: at})
		found := state.FoundText(state.Found{Rate: state.Search{Level: 1}, At: at})
		events = append(events, &sharedlog.Event{Process: 1, N: int64(len(events) + 1), Kind: sharedlog.Found, Model: model, Text: found})
	}
	e.write(a, 0, events...)
	for i, event := range events {
		event.Seq = int64(i) + 1
	}
	e.commit(e.begin(a, 6), &sharedlog.Batch{
		Events: []*sharedlog.Event{use(1, 7)}, Passed: events, Drops: [][2]int64{{1, 6}}, Sweep: true,
	})
	e.commit(e.begin(a, 7), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 8)}, Sweep: true})
	img := e.image(a)
	_, newDay := img.Days["new"]
	_, oldDay := img.Days["old"]
	_, oldCooldown := img.Cooldowns["old"]
	if !newDay || oldDay || oldCooldown {
		e.t.Errorf("the days are %+v, the cooldowns %+v", img.Days, img.Cooldowns)
	}
	if _, has := img.Found["new"]; !has || len(img.Found) != 1 {
		e.t.Errorf("found is %+v", img.Found)
	}
}
