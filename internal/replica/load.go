package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// boot loads the log, or begins one where there is none.
func (r *Replica) boot(ctx context.Context) error {
	for tries := 0; ; tries++ {
		image, err := r.loadImage(ctx)
		var s *fleet.State
		switch {
		case err == nil && !image.IsZero():
			s, err = fleet.Read(image.Bytes, r.options.Observer)
		case err == nil, errors.Is(err, store.ErrLost) && time.Duration(tries)*probe >= patience:
			r.doubts = err != nil && !r.options.FreshStart
			s = fleet.New(engine.New(engine.DrawSeed(), r.options.Observer))
			if was, failed := fleet.Read(image.Bytes, r.options.Observer); failed == nil && !r.options.FreshStart {
				s = was // of a log of which the image alone is left
			}
			old := image.At.Log // of a log whose image cannot be read any more
			image = store.Image{At: store.Position{Log: store.NewID()}, Bytes: s.AppendImage(nil)}
			err = r.log.Begin(ctx, old, image)
		}
		if err == nil {
			r.mu.Lock()
			r.swap(s, &image)
			r.mu.Unlock()
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, store.ErrLost) && tries >= loadTries {
			return fmt.Errorf("open the log: %w", err)
		}
		select { // those that know what was in it begin it anew
		case <-time.After(probe):
		case <-ctx.Done():
			return fmt.Errorf("open the log: %w", ctx.Err())
		}
	}
}

// patience is how long a newcomer waits for those that know what was in a log that is gone.
const patience = 3 * time.Second

// loadTries is how often a newcomer tries again to load a log that does not answer.
const loadTries = 3

func (r *Replica) loadImage(ctx context.Context) (store.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*r.timeout)
	defer cancel()
	sent := time.Now()
	image, err := r.log.Load(ctx)
	if err == nil || errors.Is(err, store.ErrLost) {
		r.mu.Lock()
		r.met(sent)
		r.mu.Unlock()
	}
	return image, err
}

// swap puts another state in place.
func (r *Replica) swap(s *fleet.State, image *store.Image) {
	r.keepMine()
	r.options.Lock.Lock()
	r.state, r.at = s, image.At
	if r.options.Swapped != nil {
		r.options.Swapped(s.Engine)
	}
	r.options.Lock.Unlock()
	r.life.leasesEnd, r.digests = time.Time{}, digests{}
	r.image.Size = len(image.Bytes)
	r.volume, r.kept = 0, r.usualVolume()
}

// load goes on from the newest image, because there is nothing to read behind the place where the
// process stood; lost says that this place is in no log any more. The first who notices that begins
// the log anew with what it knows.
func (r *Replica) load(stood store.Position, lost bool) {
	sent := time.Now()
	image, err := r.loadImage(r.ctx)
	gone := errors.Is(err, store.ErrLost) || err == nil && image.IsZero()
	switch {
	case gone:
		r.begin(stood, image.At.Log)
		return
	case err != nil:
		r.mu.Lock()
		r.fail(err, sent)
		r.mu.Unlock()
		return
	case lost && image.At.Log == stood.Log:
		r.begin(stood, image.At.Log)
		return
	}
	s, err := fleet.Read(image.Bytes, r.options.Observer)
	if err != nil {
		r.tell(fmt.Errorf("load the image of the log: %w", err))
		r.pause(probe)
		return
	}
	if image.At.Log != stood.Log && r.isBlank(s, image.At) {
		r.begin(stood, image.At.Log)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != stood || image.At.Log == stood.Log && image.At.Seq <= stood.Seq {
		return
	}
	r.takeOver(s, &image, image.At.Log != stood.Log)
}

// takeOver has the process go on from an image.
func (r *Replica) takeOver(s *fleet.State, image *store.Image, lost bool) {
	if lost {
		if r.life.lostAt == 0 {
			r.life.lostAt = r.clock.expected()
		}
		r.life.journal.pages = append(r.life.journal.pages, r.journal.pages...)
		r.journal = journal{}
	}
	if r.status == cutOff {
		r.life.wasCutOff = true
	}
	r.swap(s, image)
	r.moved()
	if r.status != joining {
		r.turnBack()
		r.status = catching
	} else if s.Member(r.process) == nil {
		r.rejoin()
	}
	r.change()
}

// rejoin has a newcomer join another log.
func (r *Replica) rejoin() {
	for _, a := range r.asks.open() {
		r.asks.drop(a)
	}
	r.life.joinedAt = time.Time{}
	r.join()
}

// join sends what a newcomer sends.
func (r *Replica) join() {
	r.life.joinsAt = time.Now()
	r.put(r.joinCommand())
}

// isBlank reports whether a log was begun by one who knew nothing, and nobody has asked for
// anything there since.
func (r *Replica) isBlank(s *fleet.State, at store.Position) bool {
	for range s.Members {
		return false
	}
	if s.Digest() != 0 {
		return false
	}
	for {
		ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
		news, err := r.log.Read(ctx, at, 0, 0)
		cancel()
		if err != nil {
			return false
		}
		for i := range news.Entries {
			switch c, _ := fleet.Decode(news.Entries[i].Command); c.(type) {
			case fleet.Join, fleet.Alive, fleet.Tick:
			default:
				return false
			}
		}
		if at = news.End(at); !news.More {
			return true
		}
	}
}

// deference is how long a process that has heard nothing for long leaves it to others to begin the
// log anew.
const deference = 300 * time.Millisecond

// begin begins the log anew with what this process knows, in place of another one. If that is old,
// others may know more: they go first, or tell it before anybody goes on.
func (r *Replica) begin(stood store.Position, old uint64) {
	r.mu.Lock()
	stale := time.Since(r.life.currentAt) > r.traits.Contact
	r.mu.Unlock()
	if stale {
		r.pause(deference)
	}
	r.mu.Lock()
	if r.at != stood {
		r.mu.Unlock()
		return
	}
	r.options.Lock.Lock()
	image := store.Image{At: store.Position{Log: store.NewID(), Seq: stood.Seq}, Bytes: r.state.AppendImage(nil)}
	r.options.Lock.Unlock()
	r.mu.Unlock()
	for range 2 { // to begin it twice does nothing
		ctx, cancel := context.WithTimeout(r.ctx, 10*r.timeout)
		err := r.log.Begin(ctx, old, image)
		cancel()
		if err != nil && !errors.Is(err, store.ErrLost) {
			continue
		}
		if err == nil {
			r.mu.Lock()
			r.begun(stood, image.At, stale)
			r.mu.Unlock()
		}
		return
	}
}

// begun has the process stand at the beginning of its log. What was sent to the old one is sent
// again.
func (r *Replica) begun(stood, at store.Position, stale bool) {
	if r.at != stood {
		return
	}
	r.at, r.life.anew = at, true
	r.turnBack()
	r.moved()
	if stale && r.alone == nil {
		r.alone = newAlone()
	}
	if stale && r.status != cutOff {
		r.alone.since = r.clock.expected()
	}
	if stale || r.status == cutOff {
		r.life.wasCutOff = true
	}
	if r.status != joining {
		r.status = catching
		r.change()
		return
	}
	r.rejoin()
}
