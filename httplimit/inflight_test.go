package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
)

func TestInFlight(t *testing.T) {
	inside, leave := make(chan bool), make(chan bool)
	var last atomic.Value
	h := httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- true
		<-leave
	}), httplimit.Options{
		Key: tenant, InFlight: func(key string) int { return len(key) },
		OnDecision: func(d httplimit.Decision) { last.Store(d) },
	})
	var all sync.WaitGroup
	enter := func(key string) {
		all.Go(func() {
			if w := get(h, key); w.Code != 200 {
				t.Errorf("%s: %d", key, w.Code)
			}
		})
		<-inside
	}
	refused := func(key string, served int) {
		t.Helper()
		w := get(h, key)
		message, kind, code := errorOf(t, w)
		want := fmt.Sprintf("Too many requests at the same time: %d are being served, which is the limit. "+
			"Try again when one of them has ended.", served)
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" || message != want || kind != "rate_limit_error" || code != "rate_limit_exceeded" {
			t.Errorf("%s: %d %v %q", key, w.Code, w.Header(), message)
		}
		d := last.Load().(httplimit.Decision)
		if d.Reason != httplimit.OverInFlight || d.InFlight != served || d.MaxInFlight != served || d.OK || d.Limits != nil {
			t.Errorf("%s: %+v", key, d)
		}
	}
	enter("bb")
	enter("bb")
	refused("bb", 2)
	enter("a")
	refused("a", 1)
	enter("ccc")
	for range 4 {
		leave <- true
	}
	all.Wait()
	for _, key := range []string{"a", "bb"} { // all places are free again
		for range key {
			enter(key)
		}
		refused(key, len(key))
		for range key {
			leave <- true
		}
		all.Wait()
	}
}

// A place is given back once, whatever ends the request and where.
func TestInFlightIsGivenBack(t *testing.T) {
	ends := map[string]func(){
		"return": func() {},
		"panic":  func() { panic("handler") },
		"Goexit": runtime.Goexit,
	}
	for name, end := range ends {
		for _, where := range []string{"next", "OnDecision", "Settle", "Refuse", "Limits", "Cost"} {
			t.Run(name+" in "+where, func(t *testing.T) {
				ending := true
				at := func(here string) {
					if ending && here == where {
						end()
					}
				}
				most := 0
				h := httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { at("next") }), httplimit.Options{
					Key: tenant, InFlight: func(string) int { return 2 },
					Limits: func(string) []keyed.Request {
						at("Limits")
						return []keyed.Request{perMinute("tokens", 10)}
					},
					Cost:       func(*http.Request, keyed.Request) int { at("Cost"); return 4 },
					OnDecision: func(d httplimit.Decision) { most = max(most, d.InFlight); at("OnDecision") },
					Settle: map[string]httplimit.Settle{"tokens": func(httplimit.Response) (int, bool) {
						at("Settle")
						return 1, true
					}},
					Refuse: func(http.ResponseWriter, *http.Request, httplimit.Decision) { at("Refuse") },
				})
				for range 20 {
					var one sync.WaitGroup
					one.Go(func() {
						defer func() { recover() }()
						get(h, "a")
					})
					one.Wait()
				}
				ending, most = false, 0
				if get(h, "a"); most != 1 {
					t.Errorf("%d requests in flight, want 1", most)
				}
			})
		}
	}
}

// Keys by the hundred thousand come and go, and leave no memory behind.
func TestInFlightForgetsKeys(t *testing.T) {
	n := 1000 + 200_000/racetest.Factor
	h := httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), httplimit.Options{
		Key: func(r *http.Request) string { return r.Header["Tenant"][0] }, InFlight: func(string) int { return 1 },
	})
	r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
	serve := func(from, to int) {
		for i := from; i < to; i++ {
			r.Header["Tenant"] = []string{fmt.Sprintf("a tenant with a long name %d", i)}
			clear(w.Header())
			h.ServeHTTP(w, r)
		}
	}
	serve(0, 1000)
	before := heap()
	serve(1000, n)
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes more", after-before)
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Many goroutines on few keys: never more at once than allowed, and none is lost.
func TestInFlightHammer(t *testing.T) {
	var inside [5]atomic.Int32
	var served, refused, over atomic.Int64
	h := httplimit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		key := int(r.Header["Tenant"][0][0] - '0')
		if inside[key].Add(1) > int32(key) {
			over.Add(1)
		}
		runtime.Gosched()
		inside[key].Add(-1)
		served.Add(1)
	}), httplimit.Options{
		Key: tenant, InFlight: func(key string) int { return int(key[0] - '0') },
		Refuse: func(http.ResponseWriter, *http.Request, httplimit.Decision) { refused.Add(1) },
	})
	const goroutines, each = 8, 500
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			for range each {
				get(h, string(rune('1'+rng.IntN(4))))
			}
		})
	}
	all.Wait()
	if over.Load() > 0 || served.Load()+refused.Load() != goroutines*each {
		t.Errorf("%d served, %d refused, %d too many", served.Load(), refused.Load(), over.Load())
	}
}
