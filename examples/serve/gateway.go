package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"github.com/redis/go-redis/v9"
)

// settings are what a gateway is told.
type settings struct {
	Upstream string               // URL of the provider
	APIKey   string               // ours at the provider, which no tenant sees
	Quota    ratelimit.ModelQuota // ours at the provider, for each model
	Tenants  map[string]string    // names by the API keys that we gave them
	RPM, TPM int                  // of each tenant
	Redis    string               // URL; empty for a gateway alone
	Prefix   string               // of the keys in Redis: gateways of one prefix count together
}

const (
	patience  = 2 * time.Second // how long a call waits for room in our quota
	maxAnswer = 300             // tokens that we expect of an answer at most
)

// endpoints are what tenants may call: the provider's others act on our account, with our key.
var endpoints = []string{"/v1/chat/completions", "/v1/responses", "/v1/embeddings"}

// gateway is an OpenAI-compatible API that gives each tenant a part of our quota.
type gateway struct {
	http.Handler
	tenants *keyed.Limiter
	quota   *ratelimit.RateLimiter
	redis   *redis.Client // nil for a gateway alone
}

// newGateway returns a gateway. The caller must close it.
func newGateway(ctx context.Context, s settings) (*gateway, error) {
	upstream, err := url.Parse(s.Upstream)
	if err != nil {
		return nil, err
	}
	g := &gateway{}
	if err := g.open(ctx, s); err != nil { // the limiters of the tenants and of our quota
		return nil, errors.Join(err, g.close(ctx))
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Set("Authorization", "Bearer "+s.APIKey)
			r.Out.Header.Del("Accept-Encoding") // a compressed answer states no usage
		},
		Transport: &llmhttp.Transport{
			Limiter: g.quota, MaxWait: patience, AddStreamUsage: true, OnEvent: settle,
			RefuseWithError: true, // its own answers tell our quota
		},
		ModifyResponse: conceal,
		ErrorHandler:   unavailable,
	}
	limited := httplimit.Handler(proxy, httplimit.Options{
		Limiter: g.tenants,
		Key: func(r *http.Request) string {
			return s.Tenants[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		},
		Limits: func(string) []keyed.Request {
			return []keyed.Request{
				{Namespace: "requests", Limit: s.RPM, Window: time.Minute},
				{Namespace: "tokens", Limit: s.TPM, Window: time.Minute},
			}
		},
		Cost: func(r *http.Request, limit keyed.Request) int {
			if limit.Namespace == "tokens" {
				return int(max(r.ContentLength, 0))/4 + maxAnswer
			}
			return 1
		},
		Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
	})
	mux := http.NewServeMux()
	for _, path := range endpoints {
		mux.Handle("POST "+path, limited)
	}
	g.Handler = mux
	return g, nil
}
