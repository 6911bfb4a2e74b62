package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// A view leads to the state of who has heard the log. Its moment is that of the store's clock, and
// nothing happens by it: calls of a process that was silent since stay open.
func TestViewOf(t *testing.T) {
	l := newLog(t)
	l.join(1, 2, 3)
	l.quota(state.Quota{MaxInFlight: 2})
	l.admit(2)
	image, n := l.state.AppendImage(nil), len(l.all)
	l.admit(3)
	l.say(3, fleet.Verb{Command: engine.Enter{By: by, Deadline: account.Never, Options: [][]engine.Want{
		wants, {{Name: engine.Name{Asked: "o", Counted: "o"}}, wants[0]},
	}}})
	l.say(1, fleet.Bye{})
	v := &store.View{Image: store.Image{Bytes: image}, Entries: l.all[n:], Now: store.Stamp{Instant: l.now + minute, Wall: 7}}
	s, now, err := fleet.ViewOf(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(s.AppendImage(nil)) != string(l.state.AppendImage(nil)) {
		t.Error("another state")
	}
	if now != (account.Now{Instant: l.now + minute, Wall: 7}) {
		t.Errorf("the moment is %v, want %v", now, l.now+minute)
	}
	var parts []string
	for _, p := range s.Parts() {
		parts = append(parts, fmt.Sprint(p.Process, p.Member, now.Instant-p.HeardAt, p.Open, p.Tokens, p.Waiting))
	}
	want := "2 true 60000000000 map[m:1] map[m:1] map[],3 true 60000000000 map[m:1] map[m:1] map[m:1 o:1]"
	if got := strings.Join(parts, ","); got != want {
		t.Errorf("parts\n%s, want\n%s", got, want)
	}

	v.Now.Instant = l.now - minute // a clock that was set back
	if _, now, err = fleet.ViewOf(v); err != nil || now.Instant != l.now {
		t.Errorf("the moment is %v, error %v, want %v", now, err, l.now)
	}
	v.Image.Bytes = image[:len(image)/2]
	if _, _, err = fleet.ViewOf(v); err == nil {
		t.Error("no error for a cut image")
	}
}
