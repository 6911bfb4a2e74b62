package replica

import (
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// How many bytes of entries there are between two images at least, and for each byte of the image:
// to read and to write that costs little beside applying them.
const (
	leastVolume   = 128 << 10
	volumeOfImage = 2
)

// saveAgain is how long after one that failed another image is made.
const saveAgain = 10 * time.Second

// saveImage has an image made, if one is due. The members take turns, because it takes time.
func (r *Replica) saveImage() {
	due := max(leastVolume, volumeOfImage*r.image.Size)
	if r.saving || r.volume < due || r.volume < due+due/4*r.turns() {
		return
	}
	r.saving = true
	r.done.Go(func() {
		err := r.makeImage()
		overtaken := errors.Is(err, store.ErrOlder) || errors.Is(err, store.ErrTrimmed) // by another's image
		failed := err != nil && !overtaken
		if failed && r.ctx.Err() == nil {
			r.tell(fmt.Errorf("save an image of the log: %w", err))
			r.pause(saveAgain)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.saving = false; !failed {
			r.volume = 0
		}
	})
}

// turns returns how many members have their turn before this one: the first is the one that joined
// behind the last that has saved an image.
func (r *Replica) turns() (before int) {
	members, own := 0, 0
	for m := range r.state.Members {
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
	image := store.Image{At: at, Bytes: s.AppendImage(nil)}
	if err := r.log.Save(r.ctx, image); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	differs := r.digests.differs(at.Seq, s.Digest())
	r.image, r.imageBy = fleet.Saved{Seq: at.Seq, Digest: s.Digest(), Size: len(image.Bytes)}, r.process
	if r.put(r.image); differs {
		r.done.Go(func() { r.mend(at.Seq) })
	}
	return nil
}

func (r *Replica) isSkipped(at store.Position) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.poisoned.skips(at)
}
