package cli

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/proxy"
)

// batchTarget is where a batch goes, and whose quota it takes.
type batchTarget struct {
	upstream *proxy.Upstream
	keyEnv   string // of the file of --config
	config   ratelimit.Config

	prefix   string // before the names of models; empty for none
	hasQuota func(name string) bool
	is       *ratelimit.RateLimiter
}

// target returns the upstream of the flag, or that of the file, and the quota. A name before the
// address counts models as a proxy with several upstreams does.
func (f *batchFlags) target(log *slog.Logger) (*batchTarget, error) {
	file, err := readConfig(f.quota.config)
	if err != nil {
		return nil, err
	}
	to := &batchTarget{}
	name, address, named := strings.Cut(f.upstream, "=")
	switch {
	case f.upstream == "" && len(file.Upstreams) == 1:
		name = slices.Collect(maps.Keys(file.Upstreams))[0]
		address, to.keyEnv = file.Upstreams[name].URL, file.Upstreams[name].KeyEnv
	case f.upstream == "":
		return nil, usagef("--upstream: where should calls go? For instance --upstream https://api.openai.com")
	case named && !strings.Contains(name, "/"):
		to.prefix = name + "/"
	case file.Upstreams[f.upstream].URL != "":
		name, address, to.keyEnv = f.upstream, file.Upstreams[f.upstream].URL, file.Upstreams[f.upstream].KeyEnv
		if len(file.Upstreams) > 1 {
			to.prefix = name + "/"
		}
	default:
		name, address = "", f.upstream
	}
	if to.upstream, err = proxy.NewUpstream(name, address); err != nil {
		return nil, usageError{err}
	}
	to.upstream.NoRefund = file.Upstreams[name].NoRefund
	all := []*proxy.Upstream{to.upstream}
	if to.prefix != "" {
		for name := range file.Upstreams {
			all = append(all, &proxy.Upstream{Name: name})
		}
		all = append(all, &proxy.Upstream{}) // so that there are several, and names of models get theirs
	}
	if to.config, err = f.quota.configOf(file.Config, all, false, log); err != nil {
		return nil, err
	}
	return to, nil
}

// limiter makes the limiter, which counted asks.
func (t *batchTarget) limiter(cfg ratelimit.Config) (*ratelimit.RateLimiter, error) {
	if t.prefix != "" {
		t.hasQuota = versionsBehind(&cfg)
	}
	var err error
	t.is, err = ratelimit.NewWithConfig(cfg)
	return t.is, err
}

// counted returns the name under which a model is counted, as the proxy does it.
func (t *batchTarget) counted(model string) string {
	if t.prefix == "" {
		return model
	}
	return proxy.CountedBehind(t.is, t.prefix, model, t.hasQuota)
}
