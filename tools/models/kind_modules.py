"""PyTorch modules of the models in kinds.py.

SPDX-License-Identifier: Apache-2.0
"""

import torch
from torch import nn
from torch.nn import functional


class Experts(nn.Module):
    """Two of four experts for each sample, selected by scattered gates."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.widen = nn.Parameter(torch.randn(4, 6, 8) * 0.3)
        self.narrow = nn.Parameter(torch.randn(4, 8, 3) * 0.3)

    def forward(self, x):
        scores, chosen = torch.topk(self.gate(x), 2, dim=1)
        none = torch.zeros(x.shape[0], 4, dtype=x.dtype)
        gates = none.scatter(1, chosen, scores.softmax(1))
        wide = functional.silu(torch.einsum("bi,eih->beh", x, self.widen))
        experts = torch.einsum("beh,eho->beo", wide, self.narrow)
        return (gates[:, :, None] * experts).sum(1)


class StateSpace(nn.Module):
    """A selective state space: seven steps of a state for each channel."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(4, 12)
        self.conv = nn.Conv1d(6, 6, 3, padding=2, groups=6)
        self.step, self.both = nn.Linear(6, 6), nn.Linear(6, 8)
        self.decay = nn.Parameter(torch.log(torch.arange(1.0, 5.0)).repeat(6, 1))
        self.skip = nn.Parameter(torch.ones(6))
        self.output = nn.Linear(6, 3)

    def forward(self, x):
        u, gate = self.inputs(x).chunk(2, -1)
        u = self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        u = functional.silu(u)
        step = functional.softplus(self.step(u))
        write, read = self.both(u).chunk(2, -1)
        state = torch.zeros(x.shape[0], 6, 4, dtype=x.dtype)
        outputs = []
        for t in range(x.shape[1]):
            state = state * torch.exp(step[:, t, :, None] * -self.decay.exp())
            state = state + (step[:, t] * u[:, t])[:, :, None] * write[:, t, None]
            outputs.append((state * read[:, t, None]).sum(-1) + self.skip * u[:, t])
        y = torch.stack(outputs, 1) * functional.silu(gate)
        return self.output(y.mean(1))


class WaveNet(nn.Module):
    """Gated dilated causal convolutions, with a sum of all layers."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.Conv1d(2, 6, 1)
        self.gated = nn.ModuleList(nn.Conv1d(6, 12, 2, dilation=d) for d in (1, 2, 4))
        self.mixed = nn.ModuleList(nn.Conv1d(6, 6, 1) for _ in range(3))
        self.output = nn.Conv1d(6, 5, 1)

    def forward(self, x):
        x, skip = self.inputs(x), 0
        for gated, mixed in zip(self.gated, self.mixed):
            padded = functional.pad(x, (gated.dilation[0], 0))
            value, gate = gated(padded).chunk(2, 1)
            y = mixed(torch.tanh(value) * torch.sigmoid(gate))
            x, skip = x + y, skip + y
        return self.output(functional.relu(skip))


class Capsules(nn.Module):
    """Three rounds of routing by agreement. A class's score is a length."""

    def __init__(self):
        super().__init__()
        self.votes = nn.Parameter(torch.randn(5, 3, 4, 4) * 0.4)

    def forward(self, x):
        votes = torch.einsum("bid,ijdk->bijk", x, self.votes)
        routes = torch.zeros(x.shape[0], 5, 3, dtype=x.dtype)
        for _ in range(3):
            capsule = (routes.softmax(2)[..., None] * votes).sum(1)
            square = (capsule * capsule).sum(-1, keepdim=True)
            capsule = square / (1 + square) * capsule / torch.sqrt(square + 1e-8)
            routes = routes + (votes * capsule[:, None]).sum(-1)
        return capsule.norm(dim=-1) * 4


class RadianceField(nn.Module):
    """Colour and density at a position and in a direction, from sines of both."""

    def __init__(self):
        super().__init__()
        self.register_buffer("octaves", 2.0 ** torch.arange(4))
        self.first = nn.Linear(27, 16)
        self.second = nn.Linear(43, 16)
        self.density, self.colour = nn.Linear(16, 1), nn.Linear(19, 3)

    def forward(self, place, direction):
        angles = (place[..., None] * self.octaves).flatten(1)
        waves = torch.cat([place, torch.sin(angles), torch.cos(angles)], 1)
        x = functional.relu(self.first(waves))
        x = functional.relu(self.second(torch.cat([x, waves], 1)))
        seen = torch.cat([x, functional.normalize(direction, dim=1)], 1)
        density = functional.softplus(self.density(x))
        return torch.cat([torch.sigmoid(self.colour(seen)), density], 1)


class PointCloud(nn.Module):
    """Points in any order, rotated by a matrix that is learned from all of
    them."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 6, 1), nn.BatchNorm1d(6), nn.ReLU())
        self.matrix = nn.Linear(6, 9)
        self.each = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU())
        self.all = nn.Linear(8, 4)

    def forward(self, points):
        turn = self.matrix(self.turn(points).max(2)[0]).view(-1, 3, 3)
        turn = turn + torch.eye(3, dtype=points.dtype)
        return self.all(self.each(torch.bmm(turn, points)).max(2).values)


class Siamese(nn.Module):
    """The loss of pairs that should be close, or at least 1.5 apart."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 4))

    def forward(self, first, second, alike):
        # The older exporter omits the epsilon that keeps a pairwise_distance
        # from 0.
        square = ((self.net(first) - self.net(second)) ** 2).sum(1)
        distance = torch.sqrt(square + 1e-6)
        apart = functional.relu(1.5 - distance)
        return (alike * distance**2 + (1 - alike) * apart**2).mean()


class Quantizer(nn.Module):
    """The loss of images by the nearest of six codes. The gradient bypasses the
    choice: three parts stop it in different places."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(1, 4, 4, 4)
        self.codes = nn.Embedding(6, 4)
        self.decode = nn.ConvTranspose2d(4, 1, 4, 4)

    def forward(self, image):
        z = self.encode(image)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 4)
        codes = self.codes.weight
        far = (flat**2).sum(1, keepdim=True) - 2 * flat @ codes.T
        nearest = (far + (codes**2).sum(1)).argmin(1)
        q = self.codes(nearest).view(z.shape[0], 2, 2, 4).permute(0, 3, 1, 2)
        again = self.decode(z + (q - z).detach())
        loss = functional.mse_loss(again, image)
        loss = loss + functional.mse_loss(q, z.detach())
        return loss + 0.25 * functional.mse_loss(z, q.detach())


class Windows(nn.Module):
    """Attention within shifted windows, by relative positions, then a merge of
    neighbours."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.inputs, self.outputs = nn.Linear(6, 18), nn.Linear(6, 6)
        self.places = nn.Parameter(torch.randn(49, 2) * 0.2)
        self.merge, self.head = nn.Linear(24, 12, bias=False), nn.Linear(12, 4)
        rows = torch.arange(16) // 4
        columns = torch.arange(16) % 4
        apart = (rows[:, None] - rows + 3) * 7 + columns[:, None] - columns + 3
        self.register_buffer("apart", apart.view(-1))
        # Parts of a window that are not neighbours do not see each other.
        part = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
        parts = (part[:, None] * 3 + part).view(2, 4, 2, 4).transpose(1, 2)
        parts = parts.reshape(4, 16)
        hidden = (parts[:, None] != parts[:, :, None]).float() * -100
        self.register_buffer("hidden", hidden)

    def attend(self, x):
        tokens = x.shape[0]
        parts = self.inputs(x).view(tokens, 16, 3, 2, 3).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        scores = query @ key.transpose(-2, -1) * 3**-0.5
        places = self.places[self.apart].view(16, 16, 2).permute(2, 0, 1)
        scores = (scores + places[None]).view(-1, 4, 2, 16, 16)
        scores = scores + self.hidden[None, :, None].to(scores.dtype)
        mixed = scores.view(tokens, 2, 16, 16).softmax(-1) @ value
        return self.outputs(mixed.transpose(1, 2).reshape(tokens, 16, 6))

    def forward(self, image):
        batch = image.shape[0]
        x = torch.roll(self.norm(image), (-2, -2), (1, 2))
        x = x.view(batch, 2, 4, 2, 4, 6).transpose(2, 3).reshape(batch * 4, 16, 6)
        x = self.attend(x).view(batch, 2, 2, 4, 4, 6).transpose(2, 3)
        x = image + torch.roll(x.reshape(batch, 8, 8, 6), (2, 2), (1, 2))
        quarters = [x[:, i::2, j::2] for j in range(2) for i in range(2)]
        return self.head(self.merge(torch.cat(quarters, -1)).mean((1, 2)))


class GraphAttention(nn.Module):
    """Each node attends to its neighbours in a graph given as data."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 5, bias=False)
        self.reader, self.read = (nn.Parameter(torch.randn(5)) for _ in range(2))
        self.output = nn.Linear(5, 3)

    def forward(self, nodes, edges):
        x = self.project(nodes)
        scores = (x @ self.reader)[:, :, None] + (x @ self.read)[:, None]
        scores = functional.leaky_relu(scores, 0.2)
        none = torch.full_like(scores, float("-inf"))
        edges = edges + torch.eye(edges.shape[1], dtype=edges.dtype)
        weights = torch.where(edges > 0, scores, none).softmax(-1)
        return self.output(functional.elu(weights @ x))


class SparseFeatures(nn.Module):
    """Masks features by the nearest point of the simplex (sparsemax): sorted
    sums give a threshold, and the features above it count."""

    def __init__(self):
        super().__init__()
        self.norm, self.scores = nn.BatchNorm1d(6), nn.Linear(6, 6)
        self.features, self.output = nn.Linear(6, 8), nn.Linear(4, 3)

    def forward(self, x):
        x = self.norm(x)
        scores = self.scores(x)
        largest, _ = torch.sort(scores, dim=1, descending=True)
        sums = torch.cumsum(largest, 1)
        counts = torch.arange(1, 7, dtype=x.dtype)
        chosen = (1 + counts * largest > sums).to(x.dtype).sum(1, keepdim=True)
        last = torch.gather(sums, 1, chosen.long() - 1)
        mask = torch.clamp(scores - (last - 1) / chosen, min=0)
        return self.output(functional.glu(self.features(mask * x)))


class Flow(nn.Module):
    """The negative log likelihood, per feature, of a normalizing flow:
    couplings, and a planar layer that changes the volume by 1 - tanh^2."""

    def __init__(self):
        super().__init__()
        self.couplings = nn.ModuleList(
            nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 4))
            for _ in range(3)
        )
        self.plane, self.shift = nn.Linear(4, 1), nn.Linear(1, 4, bias=False)

    def forward(self, x):
        volume = torch.zeros(x.shape[0], 1, dtype=x.dtype)
        for coupling in self.couplings:
            first, second = x.chunk(2, 1)
            scale, offset = coupling(first).chunk(2, 1)
            scale = torch.tanh(scale)
            x = torch.cat([second * scale.exp() + offset, first], 1)
            volume = volume + scale.sum(1, keepdim=True)
        bend = torch.tanh(self.plane(x))
        along = (self.plane.weight @ self.shift.weight).squeeze()
        volume = volume + torch.log(torch.abs(1 + (1 - bend**2) * along) + 1e-6)
        x = x + self.shift(bend)
        return (0.5 * (x**2).sum(1, keepdim=True) - volume).mean() / 4


class Tagger(nn.Module):
    """The loss of a linear chain of tags: the log sum over all paths minus the
    right one."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(5, 3)
        self.steps = nn.Parameter(torch.randn(3, 3) * 0.3)
        self.first = nn.Parameter(torch.randn(3) * 0.3)

    def forward(self, words, tags):
        scores = self.scores(words)
        all_paths = self.first + scores[:, 0]
        path = torch.gather(all_paths, 1, tags[:, :1]).squeeze(1)
        for t in range(1, words.shape[1]):
            steps = all_paths[:, :, None] + self.steps + scores[:, t, None]
            all_paths = torch.logsumexp(steps, 1)
            path = path + self.steps[tags[:, t - 1], tags[:, t]]
            own = torch.gather(scores[:, t], 1, tags[:, t : t + 1])
            path = path + own.squeeze(1)
        return (torch.logsumexp(all_paths, 1) - path).mean()


class Splines(nn.Module):
    """Functions of each feature, by the recursion of B-splines over a grid."""

    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2.2, 2.2, 9))
        self.linear = nn.Linear(4, 2, bias=False)
        self.splines = nn.Parameter(torch.randn(4, 5, 2) * 0.2)

    def forward(self, x):
        grid, at = self.grid, x[..., None]
        bases = ((at >= grid[:-1]) & (at < grid[1:])).to(x.dtype)
        for k in range(1, 4):
            up = (at - grid[: -k - 1]) / (grid[k:-1] - grid[: -k - 1])
            down = (grid[k + 1 :] - at) / (grid[k + 1 :] - grid[1:-k])
            bases = up * bases[..., :-1] + down * bases[..., 1:]
        curves = torch.einsum("bik,iko->bo", bases, self.splines)
        return self.linear(functional.silu(x)) + curves


class Styles(nn.Module):
    """A grouped convolution whose weights differ per sample and have length 1."""

    def __init__(self):
        super().__init__()
        self.image = nn.Parameter(torch.randn(1, 6, 4, 4))
        self.style = nn.Linear(5, 6)
        self.weight = nn.Parameter(torch.randn(1, 3, 6, 3, 3) * 0.3)

    def forward(self, code):
        count = code.shape[0]
        style = self.style(code).view(count, 1, 6, 1, 1) + 1
        weight = self.weight * style
        squares = (weight**2).sum((2, 3, 4), keepdim=True)
        weight = (weight * torch.rsqrt(squares + 1e-8)).view(-1, 6, 3, 3)
        image = self.image.expand(count, -1, -1, -1).reshape(1, -1, 4, 4)
        result = functional.conv2d(image, weight, padding=1, groups=count)
        return functional.leaky_relu(result.view(count, 3, 4, 4), 0.2)


class Fourier(nn.Module):
    """Tokens and features mixed by the real part of a Fourier transform of
    both."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.layer, self.output = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        x = self.norm(x + mixed)
        return self.output((x + functional.gelu(self.layer(x))).mean(1))


class Decays(nn.Module):
    """A state space in its quadratic form: decays of all pairs of steps from
    cumulative sums, masked before the exponential."""

    def __init__(self):
        super().__init__()
        self.inputs, self.both = nn.Linear(6, 12), nn.Linear(12, 8)
        self.step, self.output = nn.Linear(12, 3), nn.Linear(12, 6)
        self.rate = nn.Parameter(torch.log(torch.rand(3) + 0.5))
        self.skip = nn.Parameter(torch.rand(3))
        self.norm = nn.RMSNorm(12, eps=1e-5)

    def forward(self, x):
        u = functional.silu(self.inputs(x))
        write, read = self.both(u).chunk(2, -1)
        step = functional.softplus(self.step(u))
        sums = torch.cumsum(-torch.exp(self.rate) * step, 1)
        between = sums[:, :, None] - sums[:, None]
        steps = x.shape[1]
        before = torch.ones(steps, steps, dtype=torch.bool).tril()[None, :, :, None]
        decays = torch.exp(between.masked_fill(~before, -torch.inf))
        parts = u.view(*u.shape[:2], 3, 4)
        scores = torch.einsum("bln,bsn->bls", read, write)
        y = torch.einsum("bls,blsh,bsh,bshp->blhp", scores, decays, step, parts)
        y = y + self.skip[:, None] * parts
        return self.output(self.norm(y.flatten(2)))


class Pairs(nn.Module):
    """The contrastive loss of matching images and words over all pairs, with a
    learned temperature, behind a branch that starts at 0."""

    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(2, 6, 2, 2), nn.GELU(), nn.Flatten())
        self.project, self.mix = nn.Linear(24, 8), nn.Linear(8, 8)
        self.words = nn.Embedding(9, 8, padding_idx=0)
        self.gate = nn.Parameter(torch.zeros(1))
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, image, words):
        first = self.project(self.image(image))
        first = first + self.gate * torch.tanh(self.mix(first))
        first = functional.normalize(first, dim=-1)
        second = self.words(words).mean(1)
        second = second / second.norm(dim=-1, keepdim=True)
        scores = self.temperature.clamp(max=4.6).exp() * first @ second.t()
        own = torch.arange(scores.shape[0])
        loss = functional.cross_entropy(scores, own)
        return (loss + functional.cross_entropy(scores.t(), own)) / 2


class Rotations(nn.Module):
    """Attention of four query heads and two key heads, rotated by positions
    times frequencies, between RMS norms, and a gated layer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 16)
        self.first = nn.Parameter(torch.ones(16))
        self.second = nn.Parameter(torch.ones(16))
        self.query, self.both = nn.Linear(16, 16, False), nn.Linear(16, 16, False)
        self.join, self.gate = nn.Linear(16, 16, False), nn.Linear(16, 24, False)
        self.up, self.down = nn.Linear(16, 24, False), nn.Linear(24, 16, False)
        self.output = nn.Linear(16, 4)
        self.register_buffer("frequencies", 100 ** -(torch.arange(2) / 2))

    @staticmethod
    def normalize(x, scale):
        return scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def turn(self, x, angles):
        left, right = x.chunk(2, -1)
        turned = torch.cat((-right, left), -1)
        return x * angles.cos() + turned * angles.sin()

    def forward(self, ids):
        x = self.words(ids)
        places = torch.arange(ids.shape[1]).to(x.dtype)
        half = torch.outer(places, self.frequencies)
        angles = torch.cat((half, half), -1)
        h = self.normalize(x, self.first)
        query = self.query(h).view(*ids.shape, 4, 4).transpose(1, 2)
        key, value = self.both(h).view(*ids.shape, 4, 4).transpose(1, 2).chunk(2, 1)
        query, key = self.turn(query, angles), self.turn(key, angles)
        key, value = (each.repeat_interleave(2, 1) for each in (key, value))
        heads = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        x = x + self.join(heads.transpose(1, 2).flatten(2))
        h = self.normalize(x, self.second)
        x = x + self.down(functional.silu(self.gate(h)) * self.up(h))
        return self.output(x.mean(1))


class StandardConv(nn.Conv2d):
    """Convolves with filters of mean 0 and variance 1, times a learned gain."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.gain = nn.Parameter(torch.rand(self.out_channels) + 0.5)
        self.scale = self.weight[0].numel() ** -0.5

    def forward(self, x):
        rows, gain = self.weight.flatten(1)[None], self.gain * self.scale
        filters = functional.batch_norm(rows, None, None, gain, training=True)
        weight = filters.reshape_as(self.weight)
        return functional.conv2d(x, weight, self.bias, 1, self.padding)


class BatchStatistics(nn.Module):
    """Standardised filters, a scaled branch, and no running statistics."""

    def __init__(self):
        super().__init__()
        self.stem, self.next = StandardConv(2, 4, 3, padding=1), StandardConv(4, 4, 1)
        self.gain = nn.Parameter(torch.tensor(0.3))
        lean = {"track_running_stats": False}
        self.images, self.vectors = nn.BatchNorm2d(4, **lean), nn.BatchNorm1d(6, **lean)
        self.signals = nn.BatchNorm1d(4, affine=False, **lean)
        self.layer, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, image):
        x = self.stem(image)
        x = x + self.next(functional.relu(x)) * self.gain * 0.2
        x = functional.relu(self.images(x)).flatten(2)
        x = functional.gelu(self.signals(x)).mean(2)
        return self.head(functional.relu(self.vectors(self.layer(x)))) / 8


class Affine(nn.Module):
    """Scales and shifts each channel."""

    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(1, 1, channels) + 0.5)
        self.beta = nn.Parameter(torch.rand(1, 1, channels) - 0.5)

    def forward(self, x):
        return torch.addcmul(self.beta, self.alpha, x)


class Scales(nn.Module):
    """Learned factors of channels and heads: of affine layers, scores, a class
    token's result and a skip connection. A mask of weights and the output's
    units are not learned."""

    def __init__(self):
        super().__init__()
        self.embed, self.first, self.last = nn.Linear(4, 6), Affine(6), Affine(6)
        self.both, self.mix = nn.Linear(6, 12), nn.Linear(6, 6)
        self.temperature = nn.Parameter(torch.rand(2, 1, 1) + 0.5)
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.gamma, self.skip = nn.Parameter(torch.rand(6)), nn.Parameter(torch.rand(6))
        self.weight = nn.Parameter(torch.randn(3, 6) * 0.4)
        self.register_buffer("mask", torch.ones(3, 6).tril())
        self.register_buffer("out_mean", torch.rand(3))
        self.register_buffer("out_std", torch.rand(3) + 0.5)

    def forward(self, x):
        token, x = self.token.expand(x.shape[0], -1, -1), self.first(self.embed(x))
        x = torch.cat([token, x], 1)
        query, key = self.both(x).reshape(x.shape[0], -1, 2, 2, 3).unbind(2)
        scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1) * self.temperature
        mixed = (scores.softmax(-1) @ key.transpose(1, 2)).transpose(1, 2).flatten(2)
        token = token + self.gamma * self.mix(mixed[:, :1])
        mixed = functional.silu(mixed) * self.skip + functional.silu(x)
        x = self.last(torch.cat([token, mixed[:, 1:]], 1)).mean(1)
        x = functional.linear(functional.silu(x), self.weight * self.mask)
        return x * self.out_std + self.out_mean
