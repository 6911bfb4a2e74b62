package replica

import (
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// How many bytes of entries there are between two images at least, and for each byte of the image:
// to read and to write that costs little beside applying them. After more there are fewer.
const (
	leastVolume   = 128 << 10
	volumeOfImage = 2
)

// imageAgain is the least between two images: what is behind the last but one is kept, and whoever
// is late by less need not load one.
const imageAgain = 500 * time.Millisecond

// saveAgain is how long after one that failed another image is made.
const saveAgain = 10 * time.Second

// mostTaken is the size of the image that is taken from the engine itself, in bytes: nobody waits
// for it for more than some milliseconds. A larger one is made beside the engine, which takes some
// hundred times as long.
const mostTaken = 1 << 20

// saveImage has an image saved, if one is due: it drops the entries that the last one covers. The
// members take turns.
func (r *Replica) saveImage(due func(time.Time) bool) {
	enough := 2 * r.usualVolume()
	if r.saving || r.volume == 0 || r.volume+r.kept < enough {
		return
	}
	turns := r.turns()
	if r.volume+r.kept < enough+enough/4*int64(turns) || !due(r.imageAt.Add(imageAgain+time.Duration(turns)*stagger)) {
		return
	}
	r.saving = true
	makeIt := r.makeImage
	if r.image.Size <= mostTaken {
		image, digest := r.takeImage(), r.state.Digest()
		makeIt = func() error { return r.save(image, digest) }
	}
	r.done.Go(func() {
		err := makeIt()
		overtaken := errors.Is(err, store.ErrOlder) || errors.Is(err, store.ErrTrimmed) // by another's image
		failed := err != nil && !overtaken
		if failed && r.ctx.Err() == nil {
			r.tell(fmt.Errorf("save an image of the log: %w", err))
			r.pause(saveAgain)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.saving = false; err == nil {
			r.kept, r.volume = r.volume, 0
		}
	})
}

// usualVolume is how many bytes of entries there are between two images.
func (r *Replica) usualVolume() int64 { return max(leastVolume, volumeOfImage*int64(r.image.Size)) }

// takeImage returns the image of where this process stands.
func (r *Replica) takeImage() store.Image {
	r.options.Lock.Lock()
	defer r.options.Lock.Unlock()
	return store.Image{At: r.at, Bytes: r.state.AppendImage(make([]byte, 0, r.image.Size+r.image.Size/4))}
}

// turns returns how many members have their turn before this one: the first is the one that joined
// behind the last that has saved an image. Those that were not heard of late have none, because
// they may be dead.
func (r *Replica) turns() (before int) {
	members, own := 0, 0
	ofLate := r.state.Now().Instant - account.Minute
	for m := range r.state.Members {
		if m.HeardAt < ofLate && m.Process != r.process && m.Process != r.imageBy {
			continue
		}
		switch members++; m.Process {
		case r.process:
			own = members
		case r.imageBy:
			before = members
		}
	}
	return (own - before - 1 + members) % max(members, 1)
}

// makeImage makes an image beside the engine, from the newest image and the entries behind it, as
// far as this process has applied them. Nobody waits for it.
func (r *Replica) makeImage() error {
	old, err := r.loadImage(r.ctx)
	if err != nil || old.IsZero() {
		return err
	}
	s, err := fleet.Read(old.Bytes, nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	end := r.at
	r.mu.Unlock()
	at := old.At
	if at.Log != end.Log || at.Seq >= end.Seq {
		return store.ErrOlder
	}
	for at.Seq < end.Seq {
		news, err := r.log.Read(r.ctx, at, 0, 0)
		if err != nil {
			return err
		}
		for i := range news.Entries {
			if e := &news.Entries[i]; e.At.Seq <= end.Seq {
				if at = e.At; !r.isSkipped(at) {
					s.Apply(e)
				}
			}
		}
		if len(news.Entries) == 0 {
			return store.ErrLost
		}
	}
	if at != end {
		return store.ErrLost
	}
	return r.save(store.Image{At: at, Bytes: s.AppendImage(nil)}, s.Digest())
}

// save saves an image, and tells of it.
func (r *Replica) save(image store.Image, digest engine.Digest) error {
	if err := r.log.Save(r.ctx, image); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seq := image.At.Seq
	r.image, r.imageBy, r.imageAt = fleet.Saved{Seq: seq, Digest: digest, Size: len(image.Bytes)}, r.process, time.Now()
	if r.put(r.image); r.digests.differs(seq, digest) {
		r.done.Go(func() { r.mend(seq) })
	}
	return nil
}

func (r *Replica) isSkipped(at store.Position) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.poisoned.skips(at)
}
