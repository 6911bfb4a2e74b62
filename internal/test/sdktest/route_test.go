package sdktest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// An SDK that knows neither keys nor addresses gets its answers from the backends of a Route: from
// the second where the first refuses. Its error tells no key where both do.
func TestRoute(t *testing.T) {
	const secret = "sk-of-the-route"
	header := map[string]string{"openai": "Authorization", "anthropic": "X-Api-Key", "gemini": "X-Goog-Api-Key"}
	for _, a := range apis {
		for _, bothRefuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, both refuse: %t", a.name, bothRefuse), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					refusing := fakeprovider.New(fakeprovider.Options{Answer: func(*fakeprovider.Call) fakeprovider.Answer {
						return fakeprovider.Answer{Status: 429, Header: map[string]string{"Retry-After": "20"}}
					}}, map[string]fakeprovider.Config{model: {}})
					answering := fakeprovider.New(fakeprovider.Options{}, map[string]fakeprovider.Config{model: {}})
					if bothRefuse {
						answering = refusing
					}
					network := fakeprovider.NewNetwork()
					stop := network.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if got := r.Header.Get(header[a.provider]); got != secret+r.Host {
							t.Errorf("%s got the key %q", r.Host, got)
						}
						r.URL.Path = strings.TrimPrefix(r.URL.Path, "/team")
						if r.Host == "first.test" {
							refusing.ServeHTTP(w, r)
						} else {
							answering.ServeHTTP(w, r)
						}
					}))
					defer stop()
					under := network.Transport()
					defer under.CloseIdleConnections()
					rl, err := ratelimit.NewWithConfig(ratelimit.Config{
						FilePath: filepath.Join(t.TempDir(), "state.yaml"),
						Quotas:   map[string]ratelimit.ModelQuota{"first/" + model: {MaxRPM: 100}, "second/" + model: {MaxRPM: 10}},
					})
					if err != nil {
						t.Fatal(err)
					}
					defer rl.Close()
					route := &llmhttp.Route{
						BaseURL: "http://provider.test",
						Backends: []llmhttp.Backend{
							{Name: "first", BaseURL: "http://first.test", Header: http.Header{header[a.provider]: {secret + "first.test"}}},
							{Name: "second", BaseURL: "http://second.test/team", Header: http.Header{header[a.provider]: {secret + "second.test"}}},
						},
						Transport: llmhttp.Transport{Limiter: rl, Base: under},
					}
					call, err := a.client(&http.Client{Transport: route}, "http://provider.test", false)
					if err != nil {
						t.Fatal(err)
					}
					err = call(t.Context(), "a prompt", maxTokens)
					time.Sleep(time.Second)
					if (err != nil) != bothRefuse {
						t.Fatalf("error %v", err)
					}
					one, two := rl.Stats("first/"+model), rl.Stats("second/"+model)
					if one.RPM != 1 || two.RPM != 1 || one.InFlight+two.InFlight != 0 || (two.TPM > 0) == bothRefuse || one.CooldownUntil.IsZero() {
						t.Errorf("charged %+v and %+v", one, two)
					}
					if err == nil {
						return
					}
					text := fmt.Sprintf("%v %+v", err, err)
					if dumps, ok := err.(interface{ DumpRequest(body bool) []byte }); ok {
						text += string(dumps.DumpRequest(true))
					}
					if p, ok := llmhttp.FromError(err); !ok || p.Kind != llmhttp.RateLimited || strings.Contains(text, secret) {
						t.Errorf("the SDK's error: %s", text)
					}
				})
			})
		}
	}
}
