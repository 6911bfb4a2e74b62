package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// passing are the answers of a server that may be others the next moment.
var passing = []string{"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED", "ASK", "NOREPLICAS"}

// isAnswer reports whether an error is an answer of the server, and passes whether it is one that
// may be another one the next moment.
func isAnswer(err error) bool {
	_, is := errors.AsType[redis.Error](err)
	return is
}

func passes(err error) bool {
	return slices.ContainsFunc(passing, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// ask calls f for one step of an operation that changes nothing which anybody sees. Answers that
// pass are asked for again, as long as Options.Timeout lasts.
func ask[T any](ctx context.Context, l *Log, f func(context.Context) (T, error)) (T, error) {
	timeout := l.store.options.Timeout
	return retry(ctx, l, timeout, timeout, passes, f)
}

// patiently calls f until it succeeds, for Options.OpenTimeout at most, unless it fails for good.
func patiently[T any](ctx context.Context, l *Log, f func(context.Context) (T, error)) (T, error) {
	o := &l.store.options
	return retry(ctx, l, o.OpenTimeout, max(o.Timeout, time.Second), mayMend, f)
}

// retry calls f as long as its error is one to call it again for: each time, and all in all, for so
// long at most.
func retry[T any](ctx context.Context, l *Log, all, each time.Duration, again func(error) bool, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, all)
	defer cancel()
	var cause error // the last one that tells something
	for pause := time.Millisecond; ; pause = min(2*pause, each/10) {
		value, err := within(ctx, l, each, f)
		if told := l.told(ctx, err); cause == nil || told != err || !isTimeout(err) {
			cause = told
		}
		if err == nil || !again(err) {
			return value, cause
		}
		if ended := l.sleep(ctx, pause); ended != nil {
			if !errors.Is(cause, ended) {
				cause = fmt.Errorf("%w: %w", ended, cause)
			}
			return value, cause
		}
	}
}

// mayMend reports whether another try may succeed.
func mayMend(err error) bool {
	_, mistrusts := errors.AsType[*tls.CertificateVerificationError](err)
	final := isAnswer(err) && !passes(err) || mistrusts || errors.Is(err, redis.ErrClosed) || errors.Is(err, errClosed)
	return !final
}

// explainFor is how long it may take to find out why a call had no answer.
const explainFor = 25 * time.Millisecond

// told returns what is told of a call that failed. It has the client of a Cluster ask for the
// masters anew, in the background: by itself that does so when a master says MOVED, and once a
// minute, but not when a master is gone.
//
// Where there was no answer in time, told tells why the server cannot be connected to: go-redis
// tries that again and again, and then says that the time was over. Whatever says that is
// context.DeadlineExceeded, too. Other errors are as they are.
func (l *Log) told(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cluster, ok := l.store.client.(*redis.ClusterClient); ok && (!isAnswer(err) || passes(err)) {
		cluster.ReloadState(context.Background())
	}
	if !isTimeout(err) {
		return err
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	_, cause := within(context.WithoutCancel(ctx), l, explainFor, func(ctx context.Context) (any, error) {
		return nil, l.store.settings.dial(ctx)
	})
	if cause != nil && !isTimeout(cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// isTimeout reports whether an error says no more than that there was no answer in time.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
