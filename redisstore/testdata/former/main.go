// Package main is a program on an earlier version of this library. See package formertest.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

type reply struct {
	Allowed bool
	Error   string
	Corrupt bool
}

func say(r reply, err error) {
	if err != nil {
		r.Error, r.Corrupt = err.Error(), errors.Is(err, ratelimit.ErrCorruptState)
	}
	text, _ := json.Marshal(r)
	fmt.Println(string(text))
}

func start() (*ratelimit.RateLimiter, error) {
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	store, err := redisstore.New(context.Background(), client, redisstore.Options{Prefix: os.Args[2], Timeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	return ratelimit.NewWithConfig(ratelimit.Config{
		Store: store, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}},
	})
}

func main() {
	rl, err := start()
	if say(reply{}, err); err != nil {
		return
	}
	defer rl.Close()
	var held []*ratelimit.Reservation
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "reserve":
			r, d := rl.Reserve("m", 10, 0)
			held = append(held, r)
			say(reply{Allowed: d.Allowed}, rl.Err())
		case "state":
			say(reply{}, rl.Err())
		}
	}
}
