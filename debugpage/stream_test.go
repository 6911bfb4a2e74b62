package debugpage_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

func threeModels(t *testing.T) *ratelimit.RateLimiter {
	quota := ratelimit.ModelQuota{MaxRPM: 10}
	return newLimiter(t, map[string]ratelimit.ModelQuota{"a": quota, "b": quota, "c": quota})
}

// TestStream: everything at first, then what has changed, and now and then a sign of life.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := threeModels(t)
		v := watch(t, debugpage.Handler(rl), "/", "Accept", "text/event-stream")
		defer v.leave()
		n := v.event()
		if names := n.names("a", "b", "c"); len(names) != 3 || len(n.Active) != 0 || len(n.Idle) != 3 || n.Above == nil || n.At != time.Now().UnixMilli() {
			t.Errorf("at first %+v", n)
		}
		rl.RecordUsage("b", 1, 1)
		if events := v.events(); len(events) != 0 {
			t.Errorf("before the second is over: %+v", events)
		}
		time.Sleep(time.Second)
		n = v.event()
		if names := n.names("a", "b", "c"); !slices.Equal(names, []string{"b"}) || len(n.Active) != 1 || len(n.Idle) != 2 || n.Above != nil {
			t.Errorf("after a call of b: %+v", n)
		}
		rl.RecordUsage("b", 1, 1)
		time.Sleep(time.Second)
		n = v.event()
		if names := n.names("a", "b", "c"); !slices.Equal(names, []string{"b"}) || n.Active != nil || n.Idle != nil || n.Above != nil {
			t.Errorf("after another: %+v", n)
		}
		time.Sleep(9 * time.Second)
		if events := v.events(); len(events) != 0 {
			t.Errorf("without a change: %+v", events)
		}
		time.Sleep(time.Second)
		before := n.id
		if n = v.event(); n.Rows != nil || n.Active != nil || n.Idle != nil || n.Above != nil || n.id != before {
			t.Errorf("the sign of life is %+v", n)
		}
		r, _ := rl.Reserve("c", 1, 1)
		defer r.Cancel()
		time.Sleep(time.Second)
		if n = v.event(); n.Above == nil || !strings.Contains(*n.Above, "1 open call<") {
			t.Errorf("after an open call: %+v", n)
		}
	})
}

// TestAgesAreNoNews: what only grows older is counted on by the page.
func TestAgesAreNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {MaxTPM: 100, MaxInFlight: 1}, "n": {MaxRPM: 1}})
		r, _ := rl.Reserve("m", 1, 1)
		defer r.Cancel()
		leave := acquirer(t, rl, "m", 1, 1)
		defer leave()
		rl.CooldownFor("n", time.Hour, ratelimit.CauseOverloaded)
		rl.Reserve("n", 1, 1)
		v := watch(t, debugpage.Handler(rl), "/?stream")
		defer v.leave()
		time.Sleep(10 * time.Second) // the age of the oldest call is known to some seconds
		v.events()
		time.Sleep(40 * time.Second)
		for _, n := range v.events() {
			if n.Rows != nil || n.Active != nil || n.Idle != nil {
				t.Errorf("news %+v", n)
			}
		}
	})
}

// TestStreamGoesOn: a page that comes back gets what it missed, and all of it from another run.
func TestStreamGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := threeModels(t)
		h := debugpage.Handler(rl)
		_, version, _ := strings.Cut(get(h, "/").Body.String(), `data-version="`)
		version, _, _ = strings.Cut(version, `"`)
		rl.RecordUsage("b", 1, 1)
		rl.SetQuota("d", ratelimit.ModelQuota{MaxRPM: 1})
		time.Sleep(time.Second)
		for _, test := range []struct {
			target string
			field  []string
			rows   int
		}{
			{"/?stream=" + version, nil, 2},
			{"/?stream=old", []string{"Last-Event-ID", version}, 2},
			{"/?stream=" + version, []string{"Last-Event-ID", "another.1"}, 4},
			{"/?stream=another.1", nil, 4},
			{"/?stream=" + version + "!", nil, 4},
			{"/?stream", nil, 4},
		} {
			v := watch(t, h, test.target, test.field...)
			if n := v.event(); len(n.Rows) != test.rows {
				t.Errorf("%s %q: %d rows, want %d", test.target, test.field, len(n.Rows), test.rows)
			}
			v.leave()
		}
	})
}

// TestModelsComeAndGo: the lists of rows say what is not there any more.
func TestModelsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := threeModels(t)
		v := watch(t, debugpage.Handler(rl), "/?stream")
		defer v.leave()
		first := v.event().Idle
		rl.RemoveQuota("b")
		rl.SetQuota("aa", ratelimit.ModelQuota{MaxRPM: 1})
		time.Sleep(time.Second)
		n := v.event()
		if len(n.Rows) != 1 || len(n.Idle) != 3 || n.Idle[0] != first[0] || n.Idle[2] != first[2] || n.Idle[1] != n.Rows[0].id {
			t.Errorf("from %v to %+v", first, n)
		}
	})
}

// TestRowsStay: a model that is idle again, or passes again, keeps its place for a while.
func TestRowsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := threeModels(t)
		h := debugpage.Handler(rl)
		rl.CooldownFor("c", time.Second, "")
		rl.RecordUsage("b", 1, 1)
		v := watch(t, h, "/?stream")
		defer v.leave()
		first := v.event().Active
		time.Sleep(9 * time.Second)
		for _, n := range v.events() {
			if n.Active != nil {
				t.Errorf("the order is %v after %v", n.Active, first)
			}
		}
		time.Sleep(time.Minute - 9*time.Second)
		var orders [][]int
		for _, n := range v.events() {
			if n.Active != nil {
				orders = append(orders, n.Active)
			}
		}
		b, c := first[1], first[0]
		if len(orders) != 2 || !slices.Equal(orders[0], []int{b, c}) || !slices.Equal(orders[1], []int{b}) {
			t.Errorf("orders %v, at first %v", orders, first)
		}
	})
}

// TestSlowViewer: one that does not read holds up nobody, and gets what it missed at once.
func TestSlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := threeModels(t)
		h := debugpage.Handler(rl)
		slow := &watching{t: t, w: httptest.NewRecorder(), ended: make(chan struct{}), block: make(chan struct{})}
		slow.start(h, "/?stream")
		v := watch(t, h, "/?stream")
		v.event()
		for range 3 {
			for _, model := range []string{"a", "b", "c"} {
				rl.RecordUsage(model, 1, 1)
			}
			time.Sleep(time.Second)
			v.event()
		}
		close(slow.block)
		time.Sleep(time.Second)
		if events := slow.events(); len(events) != 2 || len(events[0].Rows) != 3 || len(events[1].Rows) != 3 {
			t.Errorf("the slow one got %+v", events)
		}
		v.leave()
		slow.leave()
	})
}

// TestTooManyViewers also shows that a viewer that leaves makes room.
func TestTooManyViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := debugpage.Handler(threeModels(t))
		var viewers []*watching
		for range 64 {
			viewers = append(viewers, watch(t, h, "/?stream"))
		}
		synctest.Wait()
		if w := get(h, "/?stream"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("status %d", w.Code)
		}
		for _, v := range viewers {
			v.event()
			v.leave()
		}
		v := watch(t, h, "/?stream")
		v.event()
		v.leave()
	})
}

// unflushable is a writer of a middleware that cannot flush.
type unflushable struct{ http.ResponseWriter }

func TestWriterThatCannotFlush(t *testing.T) {
	w := httptest.NewRecorder()
	debugpage.Handler(threeModels(t)).ServeHTTP(unflushable{w}, httptest.NewRequest(http.MethodGet, "/?stream", nil))
	if w.Code != http.StatusNotImplemented {
		t.Errorf("status %d with %q", w.Code, w.Body)
	}
}

// TestServer has a real server with deadlines, which a stream outlives, and that shuts down.
func TestServer(t *testing.T) {
	rl := threeModels(t)
	server := httptest.NewUnstartedServer(debugpage.Handler(rl))
	server.Config.WriteTimeout, server.Config.ReadTimeout = 50*time.Millisecond, 50*time.Millisecond
	server.Start()
	defer server.Close()
	resp, err := http.Get(server.URL + "/?stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for i := range 3 {
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		if err := lines.Err(); err != nil || !strings.HasPrefix(lines.Text(), "data: ") {
			t.Fatalf("event %d: %q, %v", i, lines.Text(), err)
		}
		rl.RecordUsage("a", 1, 1)
	}
	if err := server.Config.Shutdown(context.Background()); err != nil {
		t.Errorf("shut down: %v", err)
	}
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestManyModels: more models than the page shows. Those in use are among the shown ones.
func TestManyModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, shown = 2100, 2000
		quotas := make(map[string]ratelimit.ModelQuota)
		for i := range all {
			quotas["model-"+strconv.Itoa(10_000+i)] = ratelimit.ModelQuota{MaxRPM: 5}
		}
		rl := newLimiter(t, quotas)
		h := debugpage.Handler(rl)
		v := watch(t, h, "/?stream")
		defer v.leave()
		n := v.event()
		first := n.id
		if len(n.Rows) != shown || len(n.Idle) != shown || !strings.Contains(*n.Above, "100 models not shown") {
			t.Errorf("%d rows, %d idle, above %q", len(n.Rows), len(n.Idle), *n.Above)
		}
		// The last comes into view as it is used, and the last idle one leaves, for a while.
		rl.RecordUsage("model-12099", 1, 1)
		time.Sleep(time.Second)
		n = v.event()
		if names := n.names("model-12099"); len(n.Rows) != 1 || len(names) != 1 || len(n.Active) != 1 || len(n.Idle) != shown-1 {
			t.Errorf("%d rows, %q, %d active and %d idle", len(n.Rows), names, len(n.Active), len(n.Idle))
		}
		if racetest.Factor > 1 {
			return // what follows shows 2,000 models more than a hundred times
		}
		time.Sleep(130 * time.Second)
		v.events()
		late := watch(t, h, "/?stream", "Last-Event-ID", first)
		defer late.leave()
		if n := late.event(); len(n.Rows) != shown {
			t.Errorf("after some versions a page gets %d rows, want all", len(n.Rows))
		}
		if page := get(h, "/").Body.String(); rowOf(page, "model-11999") == "" || rowOf(page, "model-12099") != "" {
			t.Error("the page does not show the first 2,000")
		}
	})
}
