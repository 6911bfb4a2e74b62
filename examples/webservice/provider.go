package main

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/fakeprovider"
)

// provider is the provider of the demo. It enforces the quota by itself, shares no code with the
// limiter, and writes each request to a log before it answers. It goes on with a log that is there.
type provider struct {
	url, log string
	server   *fakeprovider.Server
	http     *http.Server
}

// startProvider starts a provider that enforces a quota and keeps its log in folder. The caller
// must close it.
func startProvider(folder string, quota ratelimit.ModelQuota) (*provider, error) {
	p := &provider{log: filepath.Join(folder, "provider.jsonl")}
	p.server = fakeprovider.New(fakeprovider.Options{Answer: answer}, map[string]fakeprovider.Config{
		"": {Limits: fakeprovider.Limits{
			fakeprovider.RPM: quota.MaxRPM, fakeprovider.TPM: quota.MaxTPM,
		}},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	if err := p.server.Keep(p.log); err != nil {
		listener.Close()
		return nil, err
	}
	p.url = "http://" + listener.Addr().String() + "/v1/"
	p.http = &http.Server{Handler: p.server, ReadHeaderTimeout: 10 * time.Second}
	go p.http.Serve(listener) // until close
	return p, nil
}

func (p *provider) close() error {
	p.http.Close()
	return p.server.CloseJournal()
}

// answer takes one to three seconds and half of the allowed length or more.
func answer(c *fakeprovider.Call) fakeprovider.Answer {
	most := max(c.MaxOutput, 2)
	a := fakeprovider.Answer{
		Delay: 200 * time.Millisecond, Spread: 400 * time.Millisecond, Pause: 40 * time.Millisecond,
	}
	a.Prompt = (c.Characters + 3) / 4
	a.Output = most/2 + c.Rand.IntN(most/2+1)
	a.Chunks = max(a.Output/6, 1)
	return a
}
