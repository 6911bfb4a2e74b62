package main

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The load: calls that come at random in the first seconds, more than the provider allows.
const (
	allowed   = 60 // requests a minute
	calls     = 120
	coming    = 75 * time.Second // while calls come
	attempts  = 6                // of the retry loop, as often as tenacity's examples do
	firstWait = time.Second      // of the retry loop; doubled each time, with jitter
	model     = "gpt-4o"
)

// What happened at an instant.
const (
	asked   = "asked"   // a caller wanted to make a call
	arrived = "arrived" // a call arrived at the provider, which answered it
	refused = "refused" // a call arrived at the provider, which answered 429
	failed  = "failed"  // a caller gave up
)

// event is one line of a recording.
type event struct {
	scene, what string
	at          time.Duration // since the beginning
}

// record makes the calls of both scenes at once, and returns what happened.
func record() (string, error) {
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{model: {MaxRPM: allowed}},
	})
	if err != nil {
		return "", err
	}
	defer limiter.Close()
	var events []event
	var scenes sync.WaitGroup
	var mu sync.Mutex
	var first error
	for name, transport := range map[string]http.RoundTripper{retrying: &retry{http.DefaultTransport}, limited: &llmhttp.Transport{Limiter: limiter}} {
		scenes.Go(func() {
			happened, err := play(name, transport)
			mu.Lock()
			defer mu.Unlock()
			events = append(events, happened...)
			first = cmp.Or(first, err)
		})
	}
	scenes.Wait()
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.scene, b.scene), cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what))
	})
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s,%s,%d\n", e.scene, e.what, e.at.Milliseconds())
	}
	return b.String(), first
}

// play has callers send their calls through a transport to a provider of their own.
func play(name string, transport http.RoundTripper) ([]event, error) {
	provider := fakeprovider.New(fakeprovider.Options{Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
		a := fakeprovider.DefaultAnswer(c)
		a.Delay = 300*time.Millisecond + rand.N(900*time.Millisecond)
		return a
	}}, map[string]fakeprovider.Config{model: {Limits: fakeprovider.Limits{fakeprovider.RPM: allowed}}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: provider}
	go server.Serve(listener)
	defer server.Close()

	start := time.Now()
	client := &http.Client{Transport: transport}
	random := rand.New(rand.NewPCG(3, 0)) // the same calls in both scenes
	var mu sync.Mutex
	var events []event
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, event{name, what, time.Since(start)})
	}
	var callers sync.WaitGroup
	for range calls {
		comes := time.Duration(random.Int64N(int64(coming)))
		callers.Go(func() {
			time.Sleep(comes)
			note(asked)
			body := strings.NewReader(`{"model":"` + model + `","max_tokens":50,"messages":[{"role":"user","content":"hello"}]}`)
			response, err := client.Post("http://"+listener.Addr().String()+"/v1/chat/completions", "application/json", body)
			if err != nil {
				note(failed)
				return
			}
			defer response.Body.Close()
			io.Copy(io.Discard, response.Body)
			if response.StatusCode != http.StatusOK {
				note(failed)
			}
		})
	}
	callers.Wait()
	for _, a := range provider.Arrivals(model) {
		what := arrived
		if a.Refused {
			what = refused
		}
		events = append(events, event{name, what, a.Time.Sub(start)})
	}
	return events, nil
}

// retry is the loop that clients have: it waits and tries again, each time twice as long.
type retry struct{ next http.RoundTripper }

func (r *retry) RoundTrip(request *http.Request) (*http.Response, error) {
	wait := firstWait
	for n := 1; ; n++ {
		response, err := r.next.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusTooManyRequests || n == attempts {
			return response, err
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		time.Sleep(wait/2 + rand.N(wait))
		wait *= 2
		if request.Body, err = request.GetBody(); err != nil {
			return nil, err
		}
	}
}
