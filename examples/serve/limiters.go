package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/redislimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"github.com/redis/go-redis/v9"
)

// open opens the two limiters: of the tenants, and of our quota at the provider.
func (g *gateway) open(ctx context.Context, s settings) (err error) {
	tenants := keyed.Options{}
	quota := ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": s.Quota}}
	if s.Redis == "" {
		quota.FilePath = filepath.Join(os.TempDir(), "go-ratelimit-serve.yaml") // nothing is saved there
	} else {
		options, err := redis.ParseURL(s.Redis)
		if err != nil {
			return err
		}
		options.ContextTimeoutEnabled = true
		g.redis = redis.NewClient(options)
		if tenants.Origin, err = redislimit.NewOrigin(g.redis, s.Prefix+"-tenants"); err != nil {
			return err
		}
		if quota.Store, err = redisstore.New(ctx, g.redis, redisstore.Options{Prefix: s.Prefix}); err != nil {
			return err
		}
	}
	if g.tenants, err = keyed.New(tenants); err != nil {
		return err
	}
	g.quota, err = ratelimit.NewWithConfig(quota)
	return err
}

// close tells the others what they do not know yet, and ends the gateway.
func (g *gateway) close(ctx context.Context) (err error) {
	if g.tenants != nil {
		if err = g.tenants.Close(ctx); err != nil {
			err = fmt.Errorf("close the limits of the tenants: %w", err)
		}
	}
	if g.quota != nil {
		err = errors.Join(err, g.quota.Close())
	}
	if g.redis != nil {
		err = errors.Join(err, g.redis.Close())
	}
	return err
}
