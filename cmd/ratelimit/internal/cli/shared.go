package cli

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

// killMargin is how much longer than a minute charges count where a process may be killed. A call
// that is sent is dated to its arrival at the provider, but those of a process that was killed stay
// dated to their admission. It takes half a percent of the quota.
const killMargin = 250 * time.Millisecond

// sharedState is where the quota is kept that this program shares with others: a file of the
// machine, or a server for several machines.
type sharedState struct {
	file   string
	redis  string
	prefix string
}

func (s *sharedState) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.file, "db", "", "`file` of the shared quota (default .core/ratelimits.db in the home folder)")
	flags.StringVar(&s.redis, "redis", "", "`address` of a Redis for several machines, in place of the file;\nuser, password and TLS (rediss://) come from REDIS_URL")
	flags.StringVar(&s.prefix, "redis-prefix", "ratelimit", "`name` of the quota in Redis")
}

// redisOptions returns how Redis is reached: the address of the flag, and what else REDIS_URL says.
func (s *sharedState) redisOptions() (*redis.Options, error) {
	options := &redis.Options{}
	if said := os.Getenv("REDIS_URL"); said != "" {
		var err error
		if options, err = redis.ParseURL(said); err != nil { // whose text may have the password
			return nil, usagef("REDIS_URL: is not an address such as rediss://user:password@host:6379/0")
		}
	}
	address := s.redis
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" {
			return nil, usagef("--redis: want host:port, or redis://host:port")
		}
		if _, has := u.User.Password(); has {
			return nil, usagef("--redis: a password there can be seen by everybody on the machine: set REDIS_URL")
		}
		if os.Getenv("REDIS_URL") == "" {
			if options, err = redis.ParseURL(address); err != nil {
				return nil, usagef("--redis: %w", err)
			}
		}
		address = u.Host
	}
	if !strings.Contains(address, ":") {
		address += ":6379"
	}
	options.Addr = address
	if options.TLSConfig != nil {
		options.TLSConfig.ServerName, _, _ = strings.Cut(address, ":")
	}
	return options, nil
}

// store opens the server of the quota.
func (s *sharedState) store(ctx context.Context) (ratelimit.Store, *redis.Client, error) {
	options, err := s.redisOptions()
	if err != nil {
		return nil, nil, err
	}
	redis.SetLogger(quiet{})
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	opened, err := redisstore.New(ctx, client, redisstore.Options{Prefix: s.prefix})
	if err != nil {
		client.Close()
		return nil, nil, fmt.Errorf("open the shared quota: %w", err)
	}
	return opened, client, nil
}

// configure makes the quota of a limiter that of the file or the server. The function that it
// returns is to be called behind the limiter's Close.
func (s *sharedState) configure(ctx context.Context, cfg *ratelimit.Config) (closeStore func(), err error) {
	if s.redis == "" {
		cfg.Backend, cfg.Shared = "sqlite", true
		if s.file != "" {
			cfg.FilePath = s.file
		}
		return func() {}, nil
	}
	if s.file != "" {
		return nil, usagef("--db and --redis: a quota is in one of them")
	}
	store, client, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Store = store
	return func() { client.Close() }, nil
}

// openFor is how long the server of the quota is tried to be reached.
const openFor = 3 * time.Second

// quiet drops what the client of Redis says beside the errors that it returns.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// configureSoon is configure for a command that a person waits for.
func (s *sharedState) configureSoon(ctx context.Context, cfg *ratelimit.Config) (closeStore func(), err error) {
	opening, cancel := context.WithTimeout(ctx, openFor)
	defer cancel()
	return s.configure(opening, cfg)
}

// read reads the shared quota, without a part in it.
func (s *sharedState) read(ctx context.Context, cfg ratelimit.Config, do func(ratelimit.Config) error) error {
	closeStore, err := s.configureSoon(ctx, &cfg)
	if err != nil {
		return err
	}
	defer closeStore()
	return do(cfg)
}

// open makes a limiter of the shared state. closeAll is to be called at the end.
func (s *sharedState) open(ctx context.Context, cfg ratelimit.Config) (limiter *ratelimit.RateLimiter, closeAll func() error, err error) {
	closeStore, err := s.configureSoon(ctx, &cfg)
	if err != nil {
		return nil, nil, err
	}
	limiter, err = ratelimit.NewWithConfig(cfg)
	if err != nil {
		closeStore()
		return nil, nil, err
	}
	return limiter, func() error {
		defer closeStore()
		return limiter.Close()
	}, nil
}
